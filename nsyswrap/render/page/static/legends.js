// The legends of a timeline: what each color and texture means.

function legends(place, series) {
  const families = new Map();
  for (const look of series) families.set(look.family, [...(families.get(look.family) || []), look]);
  for (const [family, looks] of families) {
    const list = document.createElement("ul");
    list.className = "legend";
    list.append(...[{ name: `${family}:` }, ...looks].map(legendEntry));
    place.append(list);
  }
}

function legendEntry(look) {
  const item = document.createElement("li");
  if (look.hue !== undefined) {
    const swatch = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    swatch.setAttribute("class", "swatch");
    const layers = [["class", `hue-${look.hue}`], ["fill", `url(#texture-${look.texture})`]];
    for (const [key, value] of layers.slice(0, look.texture ? 2 : 1)) {
      const patch = document.createElementNS("http://www.w3.org/2000/svg", "rect");
      patch.setAttribute("width", "14");
      patch.setAttribute("height", "14");
      patch.setAttribute(key, value);
      swatch.append(patch);
    }
    item.append(swatch);
  }
  item.append(look.name);
  return item;
}
