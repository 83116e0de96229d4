// Links into the timelines: from the address of the page, from findings, and from the rows of tables.

const timelines = [...document.querySelectorAll("article.timeline")].map((article, i) => new Timeline(article, i));
const OWN = "view"; // the state of addresses that this page wrote
const PLACE = /^#timeline-(\d+)=(-?\d+)ns\/(-?\d+)ns(&whole)?$/;

// The address of a part of time, with the part of the capture that figures are of.
function addressOf(timeline, start, end) {
  const whole = document.querySelector("#whole:checked") ? "&whole" : "";
  return `#timeline-${timeline.number}=${timeOption(timeline.content, start, end)}${whole}`;
}

// The view stands in the address, so that it can be sent.
function keepInAddress({ view, ...timeline }) {
  const [, number] = location.hash.match(PLACE) || [];
  if (view.past.length || Number(number) === timeline.number) history.replaceState(OWN, "", addressOf(timeline, view.start, view.end));
}

// Begin a new entry of the history, so that the browser's Back leads to the view before a link.
function leave(timeline) {
  const { start, end } = timeline.view;
  history.replaceState(OWN, "", addressOf(timeline, start, end));
  history.pushState(OWN, "", addressOf(timeline, start, end));
}

// Show what the address names.
function followAddress() {
  const [, number, start, end, whole] = location.hash.match(PLACE) || [];
  const timeline = timelines[number];
  const part = timeline && document.querySelector(whole ? "#whole" : "#steady");
  if (part) part.checked = true;
  timeline?.ready.then(() => {
    const { origin } = timeline.content ?? {};
    if (!timeline.content) return;
    if (history.state !== OWN) visit(timeline, start - origin, end - origin);
    else {
      timeline.view.show(start - origin, end - origin); // the browser scrolls back
      timeline.draw();
    }
  });
}

function visit(timeline, start, end) {
  timeline.view.keep();
  timeline.view.show(start, end);
  timeline.draw();
  timeline.article.scrollIntoView({ block: "start" });
  timeline.canvas.focus({ preventScroll: true });
}

// A link to a part of time with some more around it, in which the event of a lane is selected that is most like it.
function linkTo(timeline, part, text = "Show in the timeline", lane = -1) {
  const [start, end] = around(...part);
  const link = Object.assign(document.createElement("a"), { textContent: text, className: "spot" });
  link.href = addressOf(timeline, start, end);
  link.addEventListener("click", (event) => {
    event.preventDefault();
    leave(timeline);
    visit(timeline, start, end);
    timeline.act("none");
    if (lane < 0) return;
    timeline.selectAlike(...part, lane);
    timeline.scroll();
  });
  return link;
}

// The lane of the idle time of a process on a GPU; -1 where none is meant.
function idleLane({ lanes }, device, process) {
  const every = lanes.map((lane, i) => [i, lane]).filter(([, { family, group }]) => family === "idle by cause" && `${group} `.startsWith(`GPU ${device} `));
  const mine = every.find(([, { title }]) => every.length === 1 || title.endsWith(`process ${process}`));
  return mine ? mine[0] : -1;
}

// With some time around it.
function around(start, end) {
  const more = Math.max(0.25 * (end - start), 1000);
  return [start - more, end + more];
}

function timelineOf(label) {
  return timelines.find(({ article }) => article.dataset.label === label) || (timelines.length === 1 ? timelines[0] : null);
}

function linkFindings(timeline) {
  for (const [name, [start, end, lane]] of Object.entries(timeline.content.findings)) {
    const items = [...document.querySelectorAll("[data-finding]")];
    const item = items.find(({ dataset }) => dataset.finding === name && timelineOf(dataset.label) === timeline);
    if (!item) continue;
    const link = linkTo(timeline, [start, end], "show", lane);
    link.setAttribute("aria-label", `Show the longest part of ${item.querySelector("b").textContent}`);
    item.append(link);
  }
}

// Rows with times on the clock of the capture: gaps, lanes, steps and the like.
function linkRows(table) {
  const names = [...table.tHead.rows[0].cells].map((cell) => cell.dataset.name);
  const column = (...wanted) => names.findIndex((name) => wanted.includes(name));
  const [label, start, end, length] = [column("capture"), column("start_ns"), column("end_ns"), column("duration_ns")];
  const [device, process] = [column("device_id"), column("process_id")];
  if (start < 0 || (end < 0 && length < 0)) return;
  for (const row of table.tBodies[0].rows) {
    const timeline = timelineOf(label < 0 ? "" : rawValue(row.cells[label]));
    const value = (i) => Number(rawValue(row.cells[i]));
    if (!timeline?.content || rawValue(row.cells[start]) === "") continue;
    const from = value(start) - timeline.content.origin;
    const to = end < 0 ? from + value(length) : value(end) - timeline.content.origin;
    const cell = row.cells[start];
    const lane = device < 0 || process < 0 ? -1 : idleLane(timeline.content, value(device), value(process));
    const link = linkTo(timeline, [from, to], cell.textContent, lane);
    link.title = "Show in the timeline";
    cell.dataset.value ??= cell.textContent;
    cell.replaceChildren(link);
  }
}

// A kernel's row has a button once its name is opened. It selects the first event in view, or the first of all.
function linkKernel(name) {
  if (name.querySelector(".spot")) return;
  const button = Object.assign(document.createElement("button"), { type: "button", textContent: "Show in the timeline" });
  button.className = "spot";
  name.append(" ", button);
}

function showKernel(full) {
  for (const timeline of timelines) {
    const name = timeline.content?.events.full.indexOf(full) ?? -1;
    if (name < 0) continue;
    const places = timeline.ofName(name);
    timeline.view.keep();
    timeline.select(nextIn(timeline.content.events, places, -1, timeline.view.start, 1));
    timeline.fit(timeline.picture.selected, 2);
    timeline.article.scrollIntoView({ block: "start" });
    timeline.scroll();
    timeline.canvas.focus({ preventScroll: true });
    return true;
  }
  return false;
}

// Mark the rows of the selected kernel in the tables.
function markRows(content, i) {
  for (const row of document.querySelectorAll("tr.selected")) row.classList.remove("selected");
  if (i < 0) return;
  const full = content.events.full[content.events.name[i]];
  for (const code of document.querySelectorAll("td .name > code")) {
    if (code.textContent === full) code.closest("tr").classList.add("selected");
  }
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button.spot");
  if (!button || showKernel(button.parentNode.querySelector("code").textContent)) return;
  button.disabled = true;
  button.textContent = "Not kept in the timeline";
});

Promise.all(timelines.map((timeline) => timeline.ready)).then(() => {
  const known = timelines.filter((timeline) => timeline.content);
  if (!known.length) return;
  known.forEach(linkFindings);
  document.querySelectorAll("table[data-report]").forEach(linkRows);
  document.addEventListener("toggle", ({ target }) => target.matches("td .name[open]") && linkKernel(target), true);
});
for (const button of document.querySelectorAll(".copy-link")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    const timeline = timelines.find(({ content }) => content);
    const address = timeline ? location.href.replace(/#.*|$/, addressOf(timeline, timeline.view.start, timeline.view.end)) : location.href;
    try {
      await navigator.clipboard.writeText(address);
      button.textContent = "Copied";
    } catch {
      location.replace(address); // it stands in the browser's address bar
      button.textContent = "Copy the address";
    }
    setTimeout(() => (button.textContent = "Copy link"), 1500);
  });
}
document.querySelector(".switch")?.addEventListener("change", () => timelines.filter(({ content }) => content).forEach(keepInAddress));
followAddress(); // before a timeline that is ready sooner writes its own view there
addEventListener("hashchange", followAddress);
