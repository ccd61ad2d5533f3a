"""The page of the metric's Space."""

from vl_assay.metrics.modules.page import load_page

PAGE = load_page(__file__, "itm_accuracy")

if __name__ == "__main__":
    PAGE.build().launch()
