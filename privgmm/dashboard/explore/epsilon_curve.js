// The error against epsilon, with a handle that moves along it. `data` holds every stop of the
// slider with its error and the ellipses of its release, so that the picture follows the hand in
// the browser: the ellipses are drawn over the picture until the page has caught up. The slider of
// the same name, elsewhere on the page, moves handle and picture too.

const SVG = "http://www.w3.org/2000/svg";
const REST = 120; // milliseconds without a move after which the page is told
const TRUST = 2000; // milliseconds for which a move counts more than an older answer of the page
const PATIENCE = 3000; // milliseconds after which a move that was not acknowledged is told again
const REDRAWN = 700; // milliseconds that a new picture may take after the page has caught up
const TOUCHES = ["pointerdown", "touchstart", "keydown"];
const HEIGHT = 170;
const EDGE = { left: 44, right: 14, top: 30, bottom: 34 };
const TICKS = [0.01, 0.03, 0.1, 0.3, 1, 3, 10];
const TURN = Array.from({ length: 65 }, (_, i) => (2 * Math.PI * i) / 64);

function make(parent, tag, attributes = {}, text = "") {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text) element.textContent = text;
  parent.appendChild(element);
  return element;
}

const clip = (value, low, high) => Math.min(high, Math.max(low, value));

// ---------------------------------------------------------------------------------- the curve

function scales(curve) {
  const { stops, without, alpha } = curve.data;
  const errors = [without, alpha, ...stops.map((stop) => stop.error)].filter((e) => e > 0);
  const low = Math.log10(Math.min(...errors, 0.5) / 1.4);
  const high = Math.log10(Math.min(1.25, Math.max(...errors, 0.1) * 1.4));
  const first = Math.log10(stops[0].epsilon), last = Math.log10(stops[stops.length - 1].epsilon);
  const width = curve.width - EDGE.left - EDGE.right, height = HEIGHT - EDGE.top - EDGE.bottom;
  return {
    x: (epsilon) => EDGE.left + (width * (Math.log10(epsilon) - first)) / (last - first),
    y: (error) => EDGE.top + height * (1 - clip((Math.log10(error) - low) / (high - low), 0, 1)),
    bottom: EDGE.top + height,
    right: EDGE.left + width,
    range: [10 ** low, 10 ** high],
  };
}

function drawScene(curve) {
  const { svg, data } = curve;
  const at = (curve.scale = scales(curve));
  svg.setAttribute("viewBox", `0 0 ${curve.width} ${HEIGHT}`);
  curve.scene.replaceChildren();
  const scene = curve.scene;
  const top = Math.max(at.y(data.alpha), EDGE.top);
  make(scene, "rect", {
    class: "within", x: EDGE.left, y: top, width: at.right - EDGE.left, height: at.bottom - top,
  });
  make(scene, "text", { class: "mark", x: EDGE.left + 6, y: Math.min(top + 14, at.bottom - 4) }, data.words.within);
  data.stops.forEach((stop, i) => {
    if (!stop.refused) return;
    const left = i ? (at.x(data.stops[i - 1].epsilon) + at.x(stop.epsilon)) / 2 : EDGE.left;
    const next = data.stops[i + 1];
    const right = next ? (at.x(next.epsilon) + at.x(stop.epsilon)) / 2 : at.right;
    make(scene, "rect", {
      class: "refused", x: left, y: EDGE.top, width: right - left, height: at.bottom - EDGE.top,
    });
  });
  for (const tick of TICKS) {
    if (tick >= at.range[0] && tick <= Math.min(1, at.range[1])) {
      make(scene, "line", { class: "grid", x1: EDGE.left, x2: at.right, y1: at.y(tick), y2: at.y(tick) });
      make(scene, "text", { class: "tick end", x: EDGE.left - 6, y: at.y(tick) + 4 }, String(tick));
    }
    if (tick >= data.stops[0].epsilon) {
      make(scene, "text", { class: "tick middle", x: at.x(tick), y: at.bottom + 15 }, String(tick));
    }
  }
  make(scene, "text", { class: "tick middle", x: (EDGE.left + at.right) / 2, y: HEIGHT - 4 }, data.words.across);
  if (data.without > 0) {
    make(scene, "line", {
      class: "without", x1: EDGE.left, x2: at.right, y1: at.y(data.without), y2: at.y(data.without),
    });
    // on the left, where the errors are larger, unless another label is there
    const y = Math.min(at.y(data.without) - 5, at.bottom - 6);
    const taken = Math.abs(y - Math.min(top + 14, at.bottom - 4)) < 14;
    make(scene, "text", {
      class: taken ? "mark end" : "mark", x: taken ? at.right : EDGE.left + 6, y,
    }, data.words.without);
  }
  const known = data.stops.filter((stop) => stop.error > 0);
  make(scene, "polyline", {
    class: "errors", points: known.map((s) => `${at.x(s.epsilon)},${at.y(s.error)}`).join(" "),
  });
  known.forEach((stop) => make(scene, "circle", { class: "dot", cx: at.x(stop.epsilon), cy: at.y(stop.error), r: 3 }));
}

function drawHandle(curve) {
  const stop = curve.data.stops[curve.here], at = curve.scale;
  const x = at.x(stop.epsilon);
  // without an error it stands above the labels
  const y = stop.error > 0 ? at.y(stop.error) : EDGE.top + 12;
  curve.line.setAttribute("x1", x);
  curve.line.setAttribute("x2", x);
  curve.line.setAttribute("y1", EDGE.top);
  curve.line.setAttribute("y2", at.bottom);
  curve.handle.setAttribute("cx", x);
  curve.handle.setAttribute("cy", y);
  curve.handle.setAttribute("class", `handle ${stop.tone}`);
  curve.handle.setAttribute("aria-valuenow", stop.epsilon);
  curve.handle.setAttribute("aria-valuetext", stop.words);
  const label = curve.label;
  label.textContent = stop.words;
  const half = label.getComputedTextLength() / 2;
  label.setAttribute("x", clip(x, EDGE.left + half, Math.max(at.right - half, EDGE.left + half)));
}

// -------------------------------------------------------------------------------- the picture

function ellipses(shapes, xa, ya) {
  const parts = [];
  for (const [mx, my, a, b, c] of shapes) {
    for (const r of [1, 2]) {
      const points = TURN.map((t) => {
        const x = mx + r * a * Math.cos(t), y = my + r * (b * Math.cos(t) + c * Math.sin(t));
        return `${xa.d2p(x).toFixed(1)} ${ya.d2p(y).toFixed(1)}`;
      });
      parts.push(`M${points.join("L")}Z`);
    }
  }
  return parts.join("");
}

function follow(curve) {
  const stop = curve.data.stops[curve.here];
  const chart = document.querySelector(`.${curve.data.place} .js-plotly-plot`);
  const rows = chart && chart.querySelector(".scatterlayer");
  const plot = rows && rows.parentNode;
  const layout = chart && chart._fullLayout;
  if (!plot || !layout || !layout.xaxis || !layout.yaxis || !stop.known || !curve.data.drawn) return;
  let over = plot.querySelector(":scope > .privgmm-over");
  if (!over) over = make(plot, "g", { class: "privgmm-over" });
  over.replaceChildren();
  const pen = { fill: "none", stroke: curve.data.colour };
  stop.ghosts.forEach((ghost) => make(over, "path", {
    ...pen, class: "ghost", d: ellipses(ghost, layout.xaxis, layout.yaxis), "stroke-width": 1.4,
    "stroke-opacity": 0.7,
  }));
  make(over, "path", {
    ...pen, class: "release", d: ellipses(stop.shapes, layout.xaxis, layout.yaxis), "stroke-width": 4,
  });
  hidden(chart, true, curve.data.names);
  if (curve.chart !== chart) {
    curve.chart = chart;
    chart.on("plotly_afterplot", () => {
      if (curve.caughtUp) uncover(curve);
    });
  }
}

function hidden(chart, hide, names) {
  for (const trace of chart.querySelectorAll(".scatterlayer .trace, .scatterlayer .fills > g")) {
    const drawn = trace.__data__ && trace.__data__[0] && trace.__data__[0].trace;
    const name = drawn ? drawn.name : "";
    if (names.some((known) => name.endsWith(known))) trace.style.visibility = hide ? "hidden" : "";
  }
}

function uncover(curve) {
  const chart = document.querySelector(`.${curve.data.place} .js-plotly-plot`);
  if (!chart) return;
  for (const over of chart.querySelectorAll(".privgmm-over")) over.remove();
  hidden(chart, false, curve.data.names);
}

// ----------------------------------------------------------------------------------- the hand

function moveTo(curve, here, tell) {
  const next = clip(here, 0, curve.data.stops.length - 1);
  if (next === curve.here) return;
  curve.here = next;
  curve.trusted = performance.now() + TRUST;
  curve.caughtUp = false;
  drawHandle(curve);
  follow(curve);
  if (tell) report(curve);
}

function report(curve) {
  clearTimeout(curve.timer);
  curve.timer = setTimeout(() => {
    curve.timer = null;
    // a clock, so that a curve that was taken off the page and put back never counts from one again
    curve.sequence = Math.max(curve.sequence + 1, Date.now());
    curve.trusted = performance.now() + TRUST;
    curve.send("moved", { epsilon: curve.data.stops[curve.here].epsilon, sequence: curve.sequence });
    awaitAnswer(curve, curve.sequence);
  }, REST);
}

const unanswered = (curve) => curve.timer !== null || curve.data.sequence < curve.sequence;

// The page may forget what it is told while it reruns: a move is told until it is acknowledged.
function awaitAnswer(curve, sequence) {
  setTimeout(() => {
    const answered = curve.data.sequence >= sequence || curve.sequence !== sequence;
    if (curve.stage.isConnected && !answered && curve.timer === null) report(curve);
  }, PATIENCE);
}

function nearest(curve, event) {
  const box = curve.svg.getBoundingClientRect();
  const x = ((event.clientX - box.left) * curve.width) / box.width;
  const gaps = curve.data.stops.map((stop) => Math.abs(curve.scale.x(stop.epsilon) - x));
  return gaps.indexOf(Math.min(...gaps));
}

function build(stage, data) {
  const svg = make(stage, "svg", { role: "group" });
  const curve = { stage, svg, data, here: data.here, sequence: data.sequence, trusted: 0, timer: null };
  curve.scene = make(svg, "g");
  curve.line = make(svg, "line", { class: "here" });
  curve.label = make(svg, "text", { class: "label", y: 17 });
  curve.handle = make(svg, "circle", {
    r: 11, tabindex: 0, role: "slider", "aria-label": data.words.handle,
    "aria-valuemin": data.stops[0].epsilon, "aria-valuemax": data.stops[data.stops.length - 1].epsilon,
  });
  let held = false;
  svg.addEventListener("pointerdown", (event) => {
    held = true;
    svg.setPointerCapture(event.pointerId);
    curve.handle.focus({ preventScroll: true });
    moveTo(curve, nearest(curve, event), true);
    event.preventDefault();
  });
  svg.addEventListener("pointermove", (event) => {
    if (held) moveTo(curve, nearest(curve, event), true);
  });
  const drop = () => { held = false; };
  svg.addEventListener("pointerup", drop);
  svg.addEventListener("pointercancel", drop);
  curve.handle.addEventListener("keydown", (event) => {
    const last = curve.data.stops.length - 1;
    const to = {
      ArrowLeft: curve.here - 1, ArrowDown: curve.here - 1, ArrowRight: curve.here + 1,
      ArrowUp: curve.here + 1, Home: 0, End: last,
    }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    moveTo(curve, to, true);
  });
  curve.fitted = new ResizeObserver(() => {
    if (stage.clientWidth && stage.clientWidth !== curve.width) draw(curve);
  });
  curve.fitted.observe(stage);
  // The page's own slider moves handle and picture as well. While a move is unanswered the slider
  // may still arrive at an earlier one: then it counts only if the hand is on the slider.
  curve.touched = (event) => {
    curve.onSlider = Boolean(event.target.closest && event.target.closest(`.${curve.data.slider}`));
  };
  for (const kind of TOUCHES) document.addEventListener(kind, curve.touched, true);
  curve.watch = new MutationObserver((changes) => {
    for (const { target } of changes) {
      if (!target.closest(`.${curve.data.slider}`)) continue;
      const late = unanswered(curve);
      if (late && !curve.onSlider) continue;
      const said = Number(target.getAttribute("aria-valuetext") || NaN);
      const to = curve.data.stops.findIndex((stop) => stop.epsilon === said);
      // told too, or else the page might still take the older move
      if (to >= 0) moveTo(curve, to, late);
    }
  });
  curve.watch.observe(document.body, { subtree: true, attributeFilter: ["aria-valuetext"] });
  return curve;
}

function draw(curve) {
  curve.width = Math.max(curve.stage.clientWidth, 240);
  drawScene(curve);
  drawHandle(curve);
}

export default function (component) {
  const { data, parentElement, setStateValue } = component;
  const stage = parentElement.querySelector(".stage");
  if (!stage.curve) stage.curve = build(stage, data);
  const curve = stage.curve;
  curve.data = data;
  curve.svg.setAttribute("aria-label", data.words.group);
  curve.send = setStateValue;
  if (data.here === curve.here) {
    curve.caughtUp = true;
    setTimeout(() => { if (curve.caughtUp) uncover(curve); }, REDRAWN);
  } else if (!unanswered(curve) && performance.now() > curve.trusted) {
    // chosen elsewhere on the page: by a link, a button or a new table
    curve.here = data.here;
    curve.caughtUp = true;
    uncover(curve);
  }
  draw(curve);
  return () => setTimeout(() => {
    if (stage.isConnected) return;
    for (const kind of TOUCHES) document.removeEventListener(kind, curve.touched, true);
    curve.watch.disconnect();
    curve.fitted.disconnect();
    uncover(curve);
  }, REDRAWN);
}
