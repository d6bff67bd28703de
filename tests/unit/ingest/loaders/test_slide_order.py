"""Slides are read as a reader goes over them: from the top, and one column after the other."""

import pptx
import pytest
from pptx.util import Inches

_LEFT, _RIGHT = Inches(0.5), Inches(5)


def _deck(*boxes):
    deck = pptx.Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[5])
    slide.shapes.title.text = "Limits"
    for left, top, text in boxes:
        slide.shapes.add_textbox(left, Inches(top), Inches(4), Inches(0.8)).text_frame.text = text
    return deck


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (2, 0, 3, 1)])
def test_boxes_are_read_by_their_place(one, saved, order):
    boxes = ((_LEFT, 2, "first"), (_LEFT, 3, "second"), (_RIGHT, 2, "third"), (_RIGHT, 3, "fourth"))
    text = one(saved(_deck(*(boxes[number] for number in order))), "a.pptx").text
    assert text == "## Limits\n\nfirst\n\nsecond\n\nthird\n\nfourth"


def test_a_line_over_both_columns_comes_first(one, saved):
    deck = _deck((_RIGHT, 4, "right"), (_LEFT, 4, "left"))
    wide = deck.slides[0].shapes.add_textbox(_LEFT, Inches(2), Inches(9), Inches(0.8))
    wide.text_frame.text = "All desks"
    assert one(saved(deck), "a.pptx").text == "## Limits\n\nAll desks\n\nleft\n\nright"


def test_placeholders_have_the_place_of_their_layout(one, saved):
    deck = pptx.Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[3])  # two contents side by side
    slide.shapes.title.text = "Limits"
    slide.placeholders[1].text_frame.text = "left"
    slide.placeholders[2].text_frame.text = "right"
    tree = slide.shapes._spTree
    tree.append(slide.placeholders[1]._element)
    assert one(saved(deck), "a.pptx").text == "## Limits\n\n- left\n- right"


def test_boxes_upon_each_other_keep_the_order_of_the_file(one, saved):
    text = one(saved(_deck((_LEFT, 3.1, "below"), (_LEFT, 3, "above"))), "a.pptx").text
    assert text == "## Limits\n\nbelow\n\nabove"
