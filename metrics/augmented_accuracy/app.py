"""The page of the metric's Space."""

from vl_assay.metrics.augmented_accuracy.spec import SPEC
from vl_assay.metrics.modules.page import CAPTION_TRIPLE, Column, Page

PAGE = Page(
    __file__,
    SPEC,
    inputs={**CAPTION_TRIPLE, "categories": Column("category", "label")},
    # The images of the paper's figure 3, as two models score them.
    example=[
        ["0.203", "0.217", "0.210", "CLIP"],
        ["0.250", "0.248", "0.245", "CLIP"],
        ["0.247", "0.240", "0.254", "CLIP"],
        ["0.248", "0.245", "0.244", "CLIP"],
        ["0.164", "0.140", "0.155", "DAC-LLM"],
        ["0.166", "0.136", "0.146", "DAC-LLM"],
        ["0.146", "0.139", "0.142", "DAC-LLM"],
        ["0.103", "0.095", "0.102", "DAC-LLM"],
    ],
)

if __name__ == "__main__":
    PAGE.build().launch()
