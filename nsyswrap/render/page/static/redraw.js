// Draw the timelines again where colors or paper change.

const redraw = () =>
  timelines.forEach((timeline) => {
    if (!timeline.content) return;
    timeline.picture.refresh();
    timeline.overview.refresh();
    timeline.picture.draw();
    timeline.overview.draw();
  });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
for (const kind of ["beforeprint", "afterprint"]) {
  addEventListener(kind, () => {
    for (const timeline of timelines.filter(({ content }) => content)) {
      timeline.content.rows.onPaper = kind === "beforeprint";
      timeline.content.rows.place();
      timeline.labels();
    }
    redraw();
  });
}
