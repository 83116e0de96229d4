// Where the lanes of a timeline stand: below their group, unless the reader folded the group or hid the lane.

const LANE = 22; // height of a lane, in pixels
const GROUP = 20; // height of the line above a group of lanes

// Parts of lanes' names; narrow screens leave out the middle one.
const SHORTER = [
  /^(NVTX )(level )(\d+)$/,
  /^()(stream )(.*\))$/,
  /^(idle, |)(process )(\d+(?:: .*)?)$/,
  /^(idle)(, by cause)()$/,
  /^()(profiler )(overhead)$/,
  /^()(unified )(memory)$/,
];
const AT_FIRST = 244; // pixels of lanes up to which curves are seen at first
const ON_PAPER = 380; // height of a printed picture, in pixels: a page has no room for more

class Rows {
  constructor(lanes) {
    this.lanes = lanes;
    this.folded = new Set(); // names of groups
    this.hidden = new Set(); // numbers of lanes
    this.quieten();
    this.place();
  }

  // Hide the quiet lanes, and the curves for which a screen has no room.
  quieten() {
    let [height, group] = [0, null];
    this.lanes.forEach((lane, i) => {
      const more = LANE + (lane.group === group ? 0 : GROUP);
      if (lane.curve ? height + more > AT_FIRST : lane.quiet) this.hidden.add(i);
      else [height, group] = [height + more, lane.group];
    });
  }

  place() {
    this.tops = this.lanes.map(() => NaN);
    this.shown = [];
    let top = HEAD;
    let group = null;
    this.lanes.forEach((lane, i) => {
      const away = this.folded.has(lane.group) || this.hidden.has(i);
      const head = lane.group === group ? 0 : GROUP;
      const left = away || lane.level || lane.family === "other calls" || top + head + LANE > ON_PAPER;
      if (this.hidden.has(i) || (this.onPaper && left)) return;
      top += head;
      group = lane.group;
      if (away) return;
      this.tops[i] = top;
      this.shown.push(i);
      top += LANE;
    });
    this.height = top + 4;
  }

  // What a printed picture lacks.
  get cut() {
    const [count, all] = [this.shown.length, this.lanes.length];
    return this.onPaper && count < all ? `On paper: ${count} of ${all} lanes. The page has the others.` : "";
  }

  laneAt(y) {
    return this.tops.findIndex((top) => y >= top && y < top + LANE);
  }

  fold(group) {
    if (!this.folded.delete(group)) this.folded.add(group);
    this.place();
  }

  hide(lane) {
    this.hidden.add(lane);
    this.place();
  }

  showAll() {
    this.hidden.clear();
    this.folded.clear();
    this.place();
  }

  // Make sure that a lane is seen.
  reveal(lane) {
    if (!Number.isNaN(this.tops[lane])) return false;
    this.hidden.delete(lane);
    this.folded.delete(this.lanes[lane].group);
    this.place();
    return true;
  }

  // The lane that is seen so many lanes further down.
  further(lane, by) {
    const at = this.shown.indexOf(lane);
    return this.shown[Math.min(Math.max(at + by, 0), this.shown.length - 1)] ?? -1;
  }

  // Write the names of the lanes beside the picture. `changed` is called when the reader folds or hides.
  label(column, changed) {
    column.replaceChildren();
    const add = (kind, name, text, height, press) => {
      const label = document.createElement(kind);
      Object.assign(label, { className: name, textContent: text, title: text });
      label.style.height = `${height}px`;
      if (press) {
        label.type = "button";
        label.addEventListener("click", () => (press(), changed()));
      }
      column.append(label);
      return label;
    };
    add("div", "axis", "", HEAD);
    let group = null;
    this.lanes.forEach((lane, i) => {
      if (this.hidden.has(i) || (this.onPaper && Number.isNaN(this.tops[i]))) return;
      if (lane.group !== group) {
        ({ group } = lane);
        const { group: name } = lane;
        const open = !this.folded.has(name);
        add("button", "group", name, GROUP, () => this.fold(name)).setAttribute("aria-expanded", open);
      }
      if (Number.isNaN(this.tops[i])) return;
      const label = add("div", "lane", "", LANE);
      const parts = SHORTER.map((pattern) => lane.title.match(pattern)).find(Boolean) || [lane.title, "", "", lane.title];
      const [, first, word, last] = parts;
      const aside = Object.assign(document.createElement("i"), { className: "aside", textContent: word });
      const text = document.createElement("span");
      text.append(first, aside, last); // narrow screens leave the word out
      label.append(text);
      label.title = lane.title;
      const hide = document.createElement("button");
      Object.assign(hide, { type: "button", className: "hide", textContent: "×", title: `Hide ${lane.title}` });
      hide.setAttribute("aria-label", `Hide ${lane.group}, ${lane.title}`);
      hide.addEventListener("click", () => (this.hide(i), changed()));
      label.append(hide);
    });
  }
}
