// Bins of the lanes that do not keep all events, in steps of two from the finest to a few hundred.

const COARSEST = 512; // bins of a level

class Bins {
  constructor(content) {
    this.lanes = content.lanes.map((lane) => lane.kept < lane.count);
    this.detail = content.detail; // parts of time with all events of all lanes
    this.levels = [];
  }

  // Take the finest levels, and make the coarser ones from them.
  async build({ levels, cells }, columns) {
    const finest = levels.map(([start, width, count]) => ({ start, width, count, parts: new Map() }));
    let place = 0;
    for (const [number, lane, series, size] of cells) {
      await breathe();
      const part = (column) => column.subarray(place, place + size);
      const share = finest[number].width / 1000;
      const [at, begun] = [new Uint32Array(part(columns.at)), new Uint32Array(part(columns.begun))];
      this.add(finest[number].parts, lane, { series, at, taken: Float32Array.from(part(columns.share), (one) => one * share), begun });
      place += size;
    }
    for (let level of finest) {
      this.levels.push(level);
      while (level.count > COARSEST) this.levels.push((level = await this.coarser(level)));
    }
    this.levels.sort((a, b) => b.width - a.width);
  }

  add(parts, lane, part) {
    if (!parts.has(lane)) parts.set(lane, []);
    parts.get(lane).push(part);
  }

  async coarser({ start, width, count, parts }) {
    const level = { start, width: 2 * width, count: Math.ceil(count / 2), parts: new Map() };
    for (const [lane, every] of parts) {
      await breathe();
      for (const part of every) this.add(level.parts, lane, this.merged(part));
    }
    return level;
  }

  // Every two neighboring bins as one.
  merged({ series, at, taken, begun }) {
    const size = at.length;
    const [bins, times, counts] = [new Uint32Array(size), new Float32Array(size), new Uint32Array(size)];
    let last = -1;
    for (let i = 0; i < size; i++) {
      const bin = at[i] >>> 1;
      if (last < 0 || bins[last] !== bin) bins[++last] = bin;
      times[last] += taken[i];
      counts[last] += begun[i];
    }
    last += 1;
    return { series, at: bins.slice(0, last), taken: times.slice(0, last), begun: counts.slice(0, last) };
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
