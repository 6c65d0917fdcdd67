// A button that plays the frames of a picture. The picture has buttons of its own, but they are
// drawn shapes that no keyboard reaches: this one presses them. `data` holds the class of the
// picture's container, the labels of its two buttons, and the number of the visitor's last step:
// the picture starts by itself after a step, never when the page is opened, and never for those who
// ask for less motion.

const WAIT = 100; // milliseconds between two looks for a picture that is still being rendered
const LOOKS = 80; // looks before giving up: 8 seconds in all

const calm = () => window.matchMedia("(prefers-reduced-motion: reduce)").matches;

function press(chart, label) {
  const found = [...chart.querySelectorAll(".updatemenu-button")].find(
    (button) => button.textContent.trim() === label,
  );
  if (found) found.dispatchEvent(new MouseEvent("click", { bubbles: true }));
  return Boolean(found);
}

function show(player, playing) {
  player.playing = playing;
  player.button.setAttribute("aria-pressed", String(playing));
  player.button.textContent = playing ? "■ Stop" : "▶ Watch it happen";
}

function connect(player, looks, then) {
  const chart = document.querySelector(`.${player.place} .js-plotly-plot`);
  if (!chart || !chart.on || !chart.querySelector(".updatemenu-button")) {
    if (looks > 0) player.timer = setTimeout(() => connect(player, looks - 1, then), WAIT);
    return;
  }
  if (player.chart !== chart) {
    player.chart = chart;
    chart.on("plotly_animated", () => show(player, false));
  }
  player.button.disabled = false;
  then();
}

function play(player) {
  connect(player, LOOKS, () => {
    if (press(player.chart, player.labels[0])) show(player, true);
  });
}

function stop(player) {
  press(player.chart, player.labels[1]);
  show(player, false);
}

export default function (component) {
  const { data, parentElement } = component;
  const stage = parentElement.querySelector(".player");
  if (!stage.player) {
    stage.player = { button: stage.querySelector("button"), turn: 0 };
    show(stage.player, false);
  }
  const player = stage.player;
  player.place = data.place;
  player.labels = data.labels;
  player.button.onclick = () => (player.playing ? stop(player) : play(player));
  if (data.turn !== player.turn && !calm()) play(player);
  else connect(player, LOOKS, () => {});
  player.turn = data.turn;
  return () => clearTimeout(player.timer);
}
