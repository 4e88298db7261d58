"""A schedule as a picture: time from left to right, a line for every device, a box for every pass."""

from __future__ import annotations

from xml.etree import ElementTree

from tantamount.plan.actions import Kind
from tantamount.plan.timing import Timing

__all__ = ["timeline_svg"]

_COLOUR = {
    Kind.FORWARD: "#7fb3e6",
    Kind.BACKWARD: "#8fcf9f",
    Kind.INPUT_GRADIENT: "#a9dcb5",
    Kind.WEIGHT_GRADIENT: "#d7c98b",
}
_ROW, _HEAD, _MARGIN = 22, 26, 70
_WIDTH = 1400  # of the lines, in pixels


def timeline_svg(timing: Timing, marked: frozenset[str] = frozenset()) -> str:
    """The picture as SVG text that needs nothing else. ``marked``: actions (as text) that get a red frame. Boxes hold
    their microbatch where there is room; every box says its action and times when pointed at."""
    unit = min(40.0, _WIDTH / timing.total) if timing.total else 1.0
    height = _HEAD + _ROW * len(timing.lines) + 24
    width = _MARGIN + timing.total * unit + 10
    svg = ElementTree.Element(
        "svg", xmlns="http://www.w3.org/2000/svg", width=f"{width:.0f}", height=str(height), role="img",
        viewBox=f"0 0 {width:.0f} {height}",
    )  # fmt: skip
    svg.set("font-family", "sans-serif")
    svg.set("font-size", "11")
    _legend(svg)
    for device, line in enumerate(timing.lines):
        top = _HEAD + _ROW * device
        _text(svg, 4, top + 14, f"device {device}")
        for slot in line:
            box = ElementTree.SubElement(svg, "g")
            text = str(slot.action)
            ElementTree.SubElement(box, "title").text = f"{text}: {slot.start:g} to {slot.stop:g}"
            left, wide = _MARGIN + slot.start * unit, (slot.stop - slot.start) * unit
            frame = ElementTree.SubElement(
                box, "rect", x=f"{left:.2f}", y=str(top), width=f"{wide:.2f}", height=str(_ROW - 3),
                fill=_COLOUR[slot.action.kind], stroke="#c22" if text in marked else "#ffffff",
            )  # fmt: skip
            frame.set("stroke-width", "2" if text in marked else "0.5")
            if wide >= 8 * len(str(slot.action.microbatch)):
                _text(box, left + wide / 2, top + 14, str(slot.action.microbatch), anchor="middle")
    foot = f"{timing.total:g} forward passes long; {timing.bubble:.1%} of the time of all devices is waiting"
    _text(svg, _MARGIN, height - 8, foot)
    return ElementTree.tostring(svg, encoding="unicode") + "\n"


def _legend(svg: ElementTree.Element) -> None:
    names = {
        Kind.FORWARD: "forward", Kind.BACKWARD: "backward", Kind.INPUT_GRADIENT: "gradient of the input",
        Kind.WEIGHT_GRADIENT: "gradients of the weights",
    }  # fmt: skip
    for k, (kind, name) in enumerate(names.items()):
        left = _MARGIN + 170 * k
        ElementTree.SubElement(svg, "rect", x=str(left), y="5", width="12", height="12", fill=_COLOUR[kind])
        _text(svg, left + 17, 15, name)


def _text(parent: ElementTree.Element, x: float, y: float, text: str, anchor: str = "start") -> None:
    element = ElementTree.SubElement(parent, "text", x=f"{x:.2f}", y=f"{y:.2f}")
    element.set("text-anchor", anchor)
    element.text = text
