// Bins of the lanes that do not keep all events, in steps of two from the finest to a few hundred.

const COARSEST = 512; // bins of a level

class Bins {
  constructor(content, columns) {
    this.lanes = content.lanes.map((lane) => lane.kept < lane.count);
    this.detail = content.detail; // parts of time with all events of all lanes
    this.levels = [];
    let place = 0;
    this.finest = content.levels.map(([start, width, count]) => ({ start, width, count, parts: new Map() }));
    for (const [level, lane, series, size] of content.cells) {
      const part = (column) => column.subarray(place, place + size);
      const taken = new Float32Array(part(columns.share));
      for (let i = 0; i < size; i++) taken[i] *= this.finest[level].width / 1000;
      const [at, begun] = [new Uint32Array(part(columns.at)), new Uint32Array(part(columns.begun))];
      this.add(this.finest[level].parts, lane, { series, at, taken, begun });
      place += size;
    }
  }

  // Make the coarser levels from the finest ones.
  async build() {
    for (let level of this.finest) {
      this.levels.push(level);
      while (level.count > COARSEST) {
        await pause();
        this.levels.push((level = this.coarser(level)));
      }
    }
    this.levels.sort((a, b) => b.width - a.width);
  }

  add(parts, lane, part) {
    if (!parts.has(lane)) parts.set(lane, []);
    parts.get(lane).push(part);
  }

  coarser({ start, width, count, parts }) {
    const level = { start, width: 2 * width, count: Math.ceil(count / 2), parts: new Map() };
    for (const [lane, every] of parts) {
      for (const { series, at, taken, begun } of every) {
        const merged = { series, at: new Uint32Array(at.length), taken: new Float32Array(at.length), begun: new Uint32Array(at.length) };
        let last = -1;
        for (let i = 0; i < at.length; i++) {
          const bin = at[i] >>> 1;
          if (last < 0 || merged.at[last] !== bin) merged.at[++last] = bin;
          merged.taken[last] += taken[i];
          merged.begun[last] += begun[i];
        }
        for (const name of ["at", "taken", "begun"]) merged[name] = merged[name].slice(0, last + 1);
        this.add(level.parts, lane, merged);
      }
    }
    return level;
  }

  // Parts of a stretch of time, and for each the level to draw it from; none where all events are kept, unless
  // bins `do` as well: those that are narrower than a pixel.
  regions(start, end, perPixel, binsDo = false) {
    const edges = [start, end];
    for (const [from, to] of this.detail) edges.push(from, to);
    for (const level of this.levels) edges.push(level.start, level.start + level.count * level.width);
    const cuts = [...new Set(edges)].filter((time) => time >= start && time <= end).sort((a, b) => a - b);
    const found = [];
    cuts.slice(1).forEach((to, i) => {
      const level = this.source((cuts[i] + to) / 2, perPixel, binsDo);
      if (found.length && found.at(-1)[2] === level) found.at(-1)[1] = to;
      else found.push([cuts[i], to, level]);
    });
    return found;
  }

  source(time, perPixel, binsDo) {
    const known = this.levels.filter((level) => level.start <= time && time <= level.start + level.count * level.width);
    const fitting = known.find((level) => level.width <= perPixel);
    if (fitting && binsDo) return fitting;
    if (!this.levels.length || this.detail.some(([from, to]) => from <= time && time <= to)) return null;
    return fitting || known.at(-1) || this.levels.at(-1);
  }
}

// The filled bins from one number of a bin up to another one, as places in their list.
function placesOf(at, from, to) {
  const first = firstFrom(at, Math.floor(from), 0, at.length);
  return [first, firstFrom(at, Math.ceil(to), first, at.length)];
}
