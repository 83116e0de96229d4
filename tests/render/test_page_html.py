"""HTML: text is escaped, and a strict parser accepts the whole page."""

from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded import run_folder

from nsyswrap.api import open_capture
from nsyswrap.render.page import render
from nsyswrap.render.page.html import Markup, data, element, plain

_VOID = {"meta", "link", "input", "br"}


class Reader(HTMLParser):
    """Record tags in order, attributes and texts. Check that every element ends."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.ids: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += attrs
        self.ids += [value for key, value in attrs if key == "id" and value]
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def read(markup: str) -> Reader:
    reader = Reader()
    reader.feed(markup)
    reader.close()
    assert reader.open == []
    return reader


@given(st.text(), st.text())
@pytest.mark.slow
def test_texts_and_attributes_come_back_as_they_were(text: str, value: str) -> None:
    found = read(element("p", text, data_value=value))
    assert found.text == plain(text)
    assert found.attributes == [("data-value", plain(value))]


@given(st.text())
def test_data_cannot_end_its_element(text: str) -> None:
    found = str(data({"name": text}, "x"))
    assert found.count("<") == 2
    assert found.count("</script>") == 1


def test_what_is_left_out_and_what_has_no_value() -> None:
    assert element("a", None, "x", hidden=True, title=None, open=False) == "<a hidden>x</a>"
    assert element("input", type="search") == '<input type="search">'
    assert element("p", Markup("<b>x</b>"), 3) == "<p><b>x</b>3</p>"


def test_the_page_is_well_formed_and_names_nothing_outside(tmp_path: Path) -> None:
    folders = [run_folder(name, tmp_path) for name in ("add2/both", "graphs/graph")]
    found = read(render({folder.name: open_capture(folder) for folder in folders}))
    assert len(found.ids) == len(set(found.ids))
    links = [value for key, value in found.attributes if key in ("href", "src", "action")]
    assert all(value and value.startswith(("#", "data:")) for value in links)
    assert {value[1:] for value in links if value and value.startswith("#")} <= set(found.ids)
    assert not [key for key, _ in found.attributes if key == "style" or key.startswith("on")]
