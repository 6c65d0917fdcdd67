// Search runs in a worker, and pages opened from a disk may not start one. There, the same script
// runs in a hidden frame. The offline plugin looks for a script of this name, and would otherwise
// have one fetched from another host.
if (location.protocol === "file:") {
  const post = window.postMessage
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      this.frame.srcdoc =
        '<script>postMessage = data => parent.postMessage(data, "*")</script>' +
        `<script src="${url}"></script>`
      this.loaded = new Promise(done => this.frame.addEventListener("load", done))
      window.addEventListener("message", event => {
        if (event.source !== this.frame.contentWindow) return
        event.stopImmediatePropagation()
        this.dispatchEvent(new MessageEvent("message", { data: event.data }))
      })
      document.body.append(this.frame)
    }
    postMessage(data) {
      this.loaded.then(() => post.call(this.frame.contentWindow, data, "*"))
    }
    terminate() {
      this.frame.remove()
    }
  }
}
