// Search the names of a timeline's events, and step from one to the next.

class Search {
  constructor(field, output, content, picture) {
    Object.assign(this, { field, output, content, picture, places: [] });
  }

  get active() {
    return this.field.value.trim() !== "";
  }

  // Find the events whose name has the word, and say how many there are.
  look() {
    const word = this.field.value.trim().toLowerCase();
    const { events, lanes } = this.content;
    if (!word) {
      this.picture.found = null;
      this.places = [];
      this.output.textContent = "";
      return;
    }
    const holds = (i) => holdsParts(events.names[i], word) || holdsParts(events.full[i], word);
    const names = new Set(events.names.map((_, i) => i).filter(holds));
    this.picture.found = names;
    this.places = names.size ? events.named(names) : [];
    const part = lanes.some((lane) => lane.kept < lane.count) ? " kept on this page" : "";
    const count = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
    this.output.textContent = `${count(this.places.length, "event")}${part}, ${count(names.size, "name")}`;
  }
}

// True if a name has a word; tables leave out the middle of long names, for which "…" stands.
function holdsParts(name, word) {
  let at = 0;
  return word.split("…").every((part) => {
    const found = name.toLowerCase().indexOf(part, at);
    at = found + part.length;
    return found >= 0;
  });
}

// The event of a lane that has most in common with a part of time; -1 if none meets it.
function mostAlike(events, start, end, lane) {
  const [first, last] = events.range(lane, start, end);
  let [found, best] = [-1, 0];
  for (let i = first; i < last; i++) {
    const common = Math.min(events.end[i], end) - Math.max(events.start[i], start);
    const both = Math.max(events.end[i], end) - Math.min(events.start[i], start);
    if (common / Math.max(both, 1) > best) [found, best] = [i, common / Math.max(both, 1)];
  }
  return found;
}

// The place in a list of events from which `by` steps lead on from an event, or from a time.
function nextIn(events, places, now, time, by) {
  const at = places.indexOf(now);
  if (at >= 0) return places[Math.min(Math.max(at + by, 0), places.length - 1)];
  const after = places.findIndex((i) => events.start[i] >= time);
  return places[after < 0 ? places.length - 1 : after];
}
