// Where the page holds no single events, it says so, and which command shows them.

class Limit {
  constructor(element, content, picture) {
    Object.assign(this, { element, content, picture });
    this.end = Object.assign(document.createElement("span"), { className: "text" });
    this.command = Object.assign(codeToCopy(""), { hidden: true });
    element.replaceChildren(this.end, this.command);
    element.hidden = !content.bins.lanes.includes(true); // all single events are on the page
  }

  show() {
    const { content, picture } = this;
    if (this.element.hidden) return;
    const { endsHere } = picture;
    this.element.classList.toggle("quiet", !endsHere);
    this.command.hidden = !endsHere;
    this.end.textContent = endsHere
      ? "Detail ends here: faint parts are sums over many events. All events of this view: "
      : "Faint parts, where there are any, are sums over many events.";
    const { start, end } = picture.view;
    const text = `nsyswrap view ${shellQuoted(content.source)} --time ${timeOption(content, Math.max(start, 0), Math.min(end, content.length))}`;
    this.command.querySelector("code").textContent = text;
  }
}

function shellQuoted(text) {
  return /^[\w./:=@%+-]+$/.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`;
}
