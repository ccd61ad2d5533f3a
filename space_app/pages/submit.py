"""The Submit page: checking and sending predictions, the receipt, and withdrawing submissions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import gradio as gr
from markupsafe import Markup

from ...metrics.common.errors import PredictionsError, VLAssayError
from ...metrics.results.scores import by_category, score_rows, title
from ..board.catalogue import Catalogue
from ..board.entries import place
from ..submissions import login
from ..submissions.submissions import MODEL_FIELDS, Receipt, preview, submit, withdraw
from ..submissions.uploads import MEGABYTE, MOST_FILES, check_files, upload_limit
from .common import QUIET, message, render
from .leaderboard import Leaderboard

_MODEL_COMMAND = (
    "pip install -e '.[models]'  # in a checkout\n"
    "vl-assay predict openai/clip-vit-base-patch32 sugarcrepe --out predictions"
)
_COPY_JS = Path(__file__).with_name("templates").joinpath("copy.js").read_text(encoding="utf-8")
_FILE_HELP = (
    "Predictions of any other system: `vl-assay precomputed --template TASK` writes a file to fill in, and `vl-assay "
    "predict precomputed:FILE TASK` converts it; `docs/guide.md` has the columns, and further formats."
)


def submit_tab(catalogue: Catalogue, page: Leaderboard) -> None:
    """Build the page's components and events."""
    _step(1, "Make predictions", "On your own machine, with any model that vl-assay loads:")
    gr.HTML(render("code.html", text=_MODEL_COMMAND), js_on_load=_COPY_JS, elem_id="command")
    gr.Markdown(_FILE_HELP)
    limits = f"at most {MOST_FILES}, each of at most {upload_limit() // MEGABYTE} MB."
    _step(2, "Upload them", f"The Parquet files of one model, which the command wrote: {limits}")
    uploads = gr.File(
        label="Predictions", file_count="multiple", file_types=[".parquet"], height=150, elem_id="predictions"
    )
    with gr.Row():
        name = gr.Textbox(label="Model's name", placeholder="by default that of the predictions", elem_id="name")
        family = gr.Textbox(label="Family", placeholder="such as clip", elem_id="family")
        parameters = gr.Textbox(label="Parameters", placeholder="such as 151M", elem_id="parameters")
    with gr.Row():
        data = gr.Textbox(label="Training data", placeholder="such as LAION-2B", elem_id="training-data")
        link = gr.Textbox(label="Link", placeholder="https://…", elem_id="link")
    _step(3, "Check them", "Every row is compared with the benchmark, and the scores are computed. Nothing is stored.")
    check = gr.Button("Check", elem_id="check")
    checked = gr.HTML(elem_id="checked")
    _step(4, "Send them", "They are stored, and the scores appear on the leaderboard or wait for a maintainer.")
    if login.is_offered():
        gr.LoginButton(elem_id="login")
    send = gr.Button("Send", variant="primary", elem_id="send")
    # Apart from the receipt, whose key must not be lost by pressing again.
    problem = gr.HTML(elem_id="send-problem")
    answer = gr.HTML(elem_id="receipt")
    inputs = [uploads, name, family, parameters, data, link]
    sent = gr.State(())

    def receive(
        function: Callable[..., Receipt], files: Sequence[str] | None, typed: Sequence[str], user: str
    ) -> Receipt:
        paths = [Path(file) for file in files or ()]
        if not paths:
            raise PredictionsError("no predictions file was uploaded; choose files that `vl-assay predict` wrote")
        check_files(paths)
        model = {key: value.strip() for key, value in zip(MODEL_FIELDS, typed, strict=True) if value}
        contents = [path.read_bytes() for path in paths]
        receipt = function(catalogue.storage, contents, model, user, names=[path.name for path in paths])
        if function is submit:
            catalogue.refresh()
        return receipt

    def on_check(files: Sequence[str] | None, profile: gr.OAuthProfile | None, *typed: str) -> str:
        try:
            return receipt_html(receive(preview, files, typed, login.visitor(profile)), is_stored=False)
        except VLAssayError as error:
            return message(str(error), is_error=True)

    def on_send(files: Sequence[str] | None, profile: gr.OAuthProfile | None, *typed: str) -> list[Any]:
        try:
            receipt = receive(submit, files, typed, login.sender(profile))
        except VLAssayError as error:
            return [message(str(error), is_error=True), gr.skip(), [], gr.skip()]
        tasks = [(predictions["benchmark"], predictions["task"]) for predictions in receipt.predictions]
        return ["", receipt_html(receipt, is_stored=True), tasks, None]

    def on_api(
        files: Sequence[str] | None, profile: gr.OAuthProfile | None, token: gr.OAuthToken | None, *typed: str
    ) -> dict[str, Any]:
        try:
            return as_json(receive(submit, files, typed, login.sender(profile, token)))
        except VLAssayError as error:
            return {"error": str(error)}

    check.click(on_check, inputs, checked, api_visibility="private")
    redraw: Any = (page.add, [sent, *page.inputs], page.outputs)
    send.click(on_send, inputs, [problem, answer, sent, uploads], api_visibility="private").then(*redraw, **QUIET)
    # For programs. It takes files through the component above, so only uploaded files can be named.
    gr.Button(visible=False).click(
        on_api, inputs, gr.JSON(visible=False), api_name="submit", api_description="Submit predictions of one model."
    )
    _withdrawal(catalogue).then(*redraw, **QUIET)


def receipt_html(receipt: Receipt, *, is_stored: bool) -> Markup:
    """Render a receipt, or the receipt of a preview, with the computed scores."""
    tables = [(title(result), result.table_scores, by_category(score_rows(result))) for result in receipt.results]
    return render("receipt.html", receipt=receipt, is_stored=is_stored, tables=tables)


def as_json(receipt: Receipt) -> dict[str, Any]:
    """Return a receipt as JSON: id, time, status, flags, predictions, and scores by benchmark, task and metric."""
    return asdict(receipt) | {"results": [place(result) | {"scores": result.scores} for result in receipt.results]}


def _step(number: int, title: str, text: str) -> None:
    gr.HTML(render("step.html", number=number, title=title, text=text))


def _withdrawal(catalogue: Catalogue) -> Any:
    """Build the part of the page that withdraws the user's submissions; return its event."""
    with gr.Accordion("Withdraw or replace a submission", open=False, elem_id="own"):
        waits = "" if login.is_offered() else " Without a login the same scores then wait for a maintainer."
        gr.Markdown(
            "To replace a submission, withdraw it and send the new one. What you withdrew by mistake, send again."
            + waits
        )
        with gr.Row():
            submission = gr.Textbox(label="Its number", placeholder="on its receipt", elem_id="own-submission")
            key = gr.Textbox(
                label="Key of its receipt", elem_id="own-key", type="password", visible=not login.is_offered()
            )
        reason = gr.Textbox(label="Reason", placeholder="everyone can read this", elem_id="own-reason")
        press = gr.Button("Withdraw", variant="stop", elem_id="withdraw")
        answer = gr.HTML(elem_id="withdrawn")

    def on_press(id: str | None, key: str | None, reason: str | None, profile: gr.OAuthProfile | None) -> str:
        id, key = (id or "").strip(), (key or "").strip()  # a hidden textbox is None
        try:
            withdrawn = withdraw(catalogue.storage, id, login.sender(profile), reason or "", key=key)
        except VLAssayError as error:
            return message(str(error), is_error=True)
        catalogue.refresh()
        return message(f"{withdrawn.id} is withdrawn.")

    return press.click(on_press, [submission, key, reason], answer, api_visibility="private")
