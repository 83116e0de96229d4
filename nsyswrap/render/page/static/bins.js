// Bins of the lanes that do not keep all events, in steps of two from the finest to a few hundred.

const COARSEST = 512; // bins of a level

class Bins {
  constructor(content, columns) {
    this.lanes = content.lanes.map((lane) => lane.kept < lane.count);
    this.detail = content.detail; // parts of time with all events of all lanes
    let place = 0;
    const finest = content.levels.map(([start, width, count]) => ({ start, width, count, parts: new Map() }));
    for (const [level, lane, series, size] of content.cells) {
      const part = (column) => column.subarray(place, place + size);
      const taken = new Float32Array(part(columns.share));
      for (let i = 0; i < size; i++) taken[i] *= finest[level].width / 1000;
      const [at, begun] = [new Uint32Array(part(columns.at)), new Uint32Array(part(columns.begun))];
      this.add(finest[level].parts, lane, { series, at, taken, begun });
      place += size;
    }
    this.levels = finest.flatMap((level) => this.pyramid(level)).sort((a, b) => b.width - a.width);
  }

  add(parts, lane, part) {
    if (!parts.has(lane)) parts.set(lane, []);
    parts.get(lane).push(part);
  }

  pyramid(level) {
    const found = [level];
    while (found.at(-1).count > COARSEST) found.push(this.coarser(found.at(-1)));
    return found;
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

  // Parts of a stretch of time, and for each the level to draw it from; none where all events are kept.
  regions(start, end, perPixel) {
    const edges = [start, end];
    for (const [from, to] of this.detail) edges.push(from, to);
    for (const level of this.levels) edges.push(level.start, level.start + level.count * level.width);
    const cuts = [...new Set(edges)].filter((time) => time >= start && time <= end).sort((a, b) => a - b);
    return cuts.slice(1).map((to, i) => [cuts[i], to, this.source((cuts[i] + to) / 2, perPixel)]);
  }

  source(time, perPixel) {
    if (!this.levels.length) return null;
    if (this.detail.some(([from, to]) => from <= time && time <= to)) return null;
    const known = this.levels.filter((level) => level.start <= time && time <= level.start + level.count * level.width);
    return known.find((level) => level.width <= perPixel) || known.at(-1) || this.levels.at(-1);
  }

  // Call `use` with the part of each filled bin of a lane in a stretch: start, end, taken, begun, series.
  each(level, lane, start, end, use) {
    for (const { series, at, taken, begun } of level.parts.get(lane) || []) {
      const first = firstFrom(at, Math.floor((start - level.start) / level.width), 0, at.length);
      for (let i = first; i < at.length; i++) {
        const from = level.start + at[i] * level.width;
        if (from >= end) break;
        const until = from + level.width;
        const share = (Math.min(until, end) - Math.max(from, start)) / level.width;
        if (share > 0) use(Math.max(from, start), Math.min(until, end), taken[i] * share, begun[i], series, level.width);
      }
    }
  }
}
