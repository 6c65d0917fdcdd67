// Two Gaussians as ellipses with handles. `data` holds ten numbers (x, y, along, across, turn;
// twice), the limits within which they may move, a line and a note to show, and the number of the
// last report heard.

const EVERY = 150; // milliseconds between reports while the hand moves
const SVG = "http://www.w3.org/2000/svg";
const NAMES = ["first", "second"];

function make(parent, tag, attributes) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  parent.appendChild(element);
  return element;
}

const clip = (value, low, high) => Math.min(high, Math.max(low, value));

function build(stage) {
  const svg = make(stage, "svg", {
    viewBox: "-4 -4 8 8", role: "group",
    "aria-label": "Two Gaussians to drag: centre, and one handle for each spread. "
      + "The same numbers can be typed below.",
  });
  for (let i = -3; i <= 3; i += 1) {
    make(svg, "line", { class: "grid", x1: i, x2: i, y1: -4, y2: 4 });
    make(svg, "line", { class: "grid", y1: i, y2: i, x1: -4, x2: 4 });
  }
  const line = make(svg, "line", { class: "line" });
  const note = make(svg, "text", { class: "note", x: 0, y: 3.68 });
  const board = { svg, line, note, pair: null, held: null, sequence: 0, sent: 0, timer: null, parts: [] };
  NAMES.forEach((name, g) => {
    const group = make(svg, "g", { class: name });
    const part = {
      outer: make(group, "ellipse", { class: "outer" }),
      body: make(group, "ellipse", { class: "body" }),
      arms: [make(group, "line", { class: "arm" }), make(group, "line", { class: "arm" })],
    };
    part.handles = ["centre", "along", "across"].map((what) => {
      const handle = make(group, "circle", {
        class: "handle", r: what === "centre" ? 0.28 : 0.19, tabindex: 0, role: "button",
        "data-handle": `${name}-${what}`,
        "aria-label": what === "centre" ? `Move the ${name} Gaussian`
          : `Stretch the ${name} Gaussian ${what} its long handle`,
      });
      handle.addEventListener("pointerdown", (event) => {
        board.held = [g, what];
        handle.setPointerCapture(event.pointerId);
        event.preventDefault();
        handle.focus({ preventScroll: true });
      });
      handle.addEventListener("pointermove", (event) => {
        if (!board.held || !handle.hasPointerCapture(event.pointerId)) return;
        const box = svg.getBoundingClientRect();
        move(board, g, what, 8 * (event.clientX - box.left) / box.width - 4,
          4 - 8 * (event.clientY - box.top) / box.height);
        report(board, false);
      });
      const release = () => {
        if (!board.held) return;
        board.held = null;
        report(board, true);
      };
      handle.addEventListener("pointerup", release);
      handle.addEventListener("pointercancel", release);
      handle.addEventListener("keydown", (event) => {
        const step = { ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0],
          ArrowUp: [0, 0.1], ArrowDown: [0, -0.1] }[event.key];
        if (!step) return;
        event.preventDefault();
        const [x, y] = places(board.pair, g)[what];
        move(board, g, what, x + step[0], y + step[1]);
        report(board, false);
      });
      return handle;
    });
    part.label = make(group, "text", {});
    part.label.textContent = String(g + 1);
    board.parts.push(part);
  });
  return board;
}

function places(pair, g) {
  const [x, y, along, across, turn] = pair.slice(5 * g, 5 * g + 5);
  const c = Math.cos(turn * Math.PI / 180), s = Math.sin(turn * Math.PI / 180);
  return { centre: [x, y], along: [x + along * c, y + along * s],
    across: [x - across * s, y + across * c] };
}

function move(board, g, what, x, y) {
  const pair = board.pair, at = 5 * g;
  if (what === "centre") {
    pair[at] = clip(x, -board.limits.reach, board.limits.reach);
    pair[at + 1] = clip(y, -board.limits.reach, board.limits.reach);
  } else {
    const dx = x - pair[at], dy = y - pair[at + 1];
    const turn = pair[at + 4] * Math.PI / 180;
    if (what === "along") {
      pair[at + 2] = clip(Math.hypot(dx, dy), board.limits.least, board.limits.most);
      pair[at + 4] = Math.atan2(dy, dx) * 180 / Math.PI;
    } else {
      const away = Math.abs(dy * Math.cos(turn) - dx * Math.sin(turn));
      pair[at + 3] = clip(away, board.limits.least, board.limits.most);
    }
  }
  draw(board);
}

function report(board, now) {
  const wait = EVERY - (performance.now() - board.sent);
  if (!now && wait > 0) {
    if (board.timer === null) board.timer = setTimeout(() => report(board, true), wait);
    return;
  }
  clearTimeout(board.timer);
  board.timer = null;
  board.sent = performance.now();
  board.sequence += 1;
  board.send("moved", {
    pair: [...board.pair], sequence: board.sequence, held: board.held !== null,
  });
}

function draw(board) {
  board.parts.forEach((part, g) => {
    const [x, y, along, across, turn] = board.pair.slice(5 * g, 5 * g + 5);
    [[part.body, 1], [part.outer, 2]].forEach(([ring, size]) => {
      ring.setAttribute("rx", size * along);
      ring.setAttribute("ry", size * across);
      ring.setAttribute("transform", `translate(${x} ${-y}) rotate(${-turn})`);
    });
    const at = places(board.pair, g);
    ["centre", "along", "across"].forEach((what, i) => {
      part.handles[i].setAttribute("cx", at[what][0]);
      part.handles[i].setAttribute("cy", -at[what][1]);
    });
    ["along", "across"].forEach((what, i) => {
      const arm = part.arms[i];
      arm.setAttribute("x1", x);
      arm.setAttribute("y1", -y);
      arm.setAttribute("x2", at[what][0]);
      arm.setAttribute("y2", -at[what][1]);
    });
    part.label.setAttribute("x", x);
    part.label.setAttribute("y", -y);
  });
}

export default function (component) {
  const { data, parentElement, setStateValue } = component;
  const stage = parentElement.querySelector(".stage");
  if (!stage.board) {
    stage.board = build(stage);
    stage.board.sequence = data.sequence;
  }
  const board = stage.board;
  board.send = setStateValue;
  board.limits = data.limits;
  board.note.textContent = data.note;
  ["x1", "y1", "x2", "y2"].forEach((end, i) => {
    board.line.setAttribute(end, i % 2 ? -data.line[i] : data.line[i]);
  });
  // An answer to an earlier report must not pull the hand back.
  if (board.pair && (board.held || board.timer !== null || data.sequence < board.sequence)) return;
  board.pair = [...data.pair];
  draw(board);
}
