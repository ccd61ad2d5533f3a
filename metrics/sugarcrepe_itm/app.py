"""The page of the metric's Space."""

from vl_assay.metrics.modules.page import CAPTION_PAIR, Column, Page
from vl_assay.metrics.sugarcrepe_itm.spec import SPEC

PAGE = Page(
    __file__,
    SPEC,
    inputs={**CAPTION_PAIR, "categories": Column("category", "label")},
    example=[
        ["0.31", "0.27", "0", "swap_obj"],
        ["0.25", "0.22", "0", "swap_obj"],
        ["0.22", "0.25", "0", "swap_obj"],
        ["0.30", "0.30", "0", "swap_att"],
    ],
)

if __name__ == "__main__":
    PAGE.build().launch()
