"""The Submit page: checking and sending predictions, the receipt, and withdrawing one's own submissions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import gradio as gr
from markupsafe import Markup

from ...metrics.common.errors import PredictionsError, SubmissionError, VLAssayError
from ...metrics.evaluation import interval, lines, percent, title, words
from ...metrics.records.results import Result
from ..board.catalogue import Catalogue
from ..storage.protocol import Storage
from ..storage.records import submissions
from ..submissions import login
from ..submissions.submissions import MODEL_FIELDS, Receipt, preview, submit, withdraw
from ..submissions.uploads import check_files
from .common import QUIET, OnOpen, message, render, table
from .leaderboard import Leaderboard

_INTRODUCTION = """Make predictions with `vl-assay predict MODEL BENCHMARK…` and upload them here. They are validated
against the benchmark, row by row, and all scores are computed from them. **Check** stores nothing; **Send** stores them
and gives a receipt."""


def submit_tab(catalogue: Catalogue, page: Leaderboard) -> OnOpen | None:
    """The components of the page and their events; what to do when it opens, where visitors can log in."""
    gr.Markdown(_INTRODUCTION)
    if login.is_offered():
        gr.LoginButton(elem_id="login")
    uploads = gr.File(label="Predictions", file_count="multiple", file_types=[".parquet"], elem_id="predictions")
    with gr.Row():
        name = gr.Textbox(label="Model's name", placeholder="by default that of the predictions", elem_id="name")
        family = gr.Textbox(label="Family", placeholder="such as clip", elem_id="family")
        parameters = gr.Textbox(label="Parameters", placeholder="such as 151M", elem_id="parameters")
    with gr.Row():
        data = gr.Textbox(label="Training data", placeholder="such as LAION-2B", elem_id="training-data")
        link = gr.Textbox(label="Link", placeholder="https://…", elem_id="link")
    with gr.Row():
        check = gr.Button("Check", elem_id="check")
        send = gr.Button("Send", variant="primary", elem_id="send")
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

    def on_send(files: Sequence[str] | None, profile: gr.OAuthProfile | None, *typed: str) -> tuple[str, list[Any]]:
        try:
            receipt = receive(submit, files, typed, login.sender(profile))
        except VLAssayError as error:
            return message(str(error), is_error=True), []
        tasks = [(predictions["benchmark"], predictions["task"]) for predictions in receipt.predictions]
        return receipt_html(receipt, is_stored=True), tasks

    def on_api(
        files: Sequence[str] | None, profile: gr.OAuthProfile | None, token: gr.OAuthToken | None, *typed: str
    ) -> dict[str, Any]:
        try:
            return as_json(receive(submit, files, typed, login.sender(profile, token)))
        except VLAssayError as error:
            return {"error": str(error)}

    check.click(on_check, inputs, answer, api_visibility="private")
    redraw: Any = (page.add, [sent, *page.inputs], page.outputs)
    sending = send.click(on_send, inputs, [answer, sent], api_visibility="private").then(*redraw, **QUIET)
    # For programs. It takes files through the component above, so only uploaded files can be named.
    gr.Button(visible=False).click(
        on_api, inputs, gr.JSON(visible=False), api_name="submit", api_description="Submit predictions of one model."
    )
    if not login.is_offered():
        return None
    show, parts, withdrawn = _withdrawal(catalogue)
    sending.then(show, None, parts, **QUIET)
    withdrawn.then(show, None, parts, **QUIET).then(*redraw, **QUIET)
    return show, None, parts


def receipt_html(receipt: Receipt, *, is_stored: bool) -> Markup:
    """A receipt, or the receipt of a preview, with the computed scores."""
    return render("receipt.html", receipt=receipt, is_stored=is_stored, tables=map(_result_table, receipt.results))


def as_json(receipt: Receipt) -> dict[str, Any]:
    """A receipt as JSON: id, time, status, flags, predictions, and scores by benchmark, task and metric."""
    results = [
        {
            "benchmark": result.benchmark["name"],
            "task": result.benchmark["task"],
            "metric": result.metric,
            "scores": result.scores,
        }
        for result in receipt.results
    ]
    return asdict(receipt) | {"results": results}


def own_submissions(storage: Storage, user: str) -> list[tuple[str, str]]:
    """Label and id of a user's submissions that are not withdrawn, newest first."""
    own = [found for found in submissions(storage) if user and found.user == user and found.status != "withdrawn"]
    return [(f"{(each.model or {}).get('name')}, {each.time[:16]} UTC, {each.status}", each.id) for each in own[::-1]]


def _withdrawal(catalogue: Catalogue) -> tuple[Callable[..., list[Any]], list[Any], Any]:
    """A function that shows a user's submissions, the components that it updates, and the event of a withdrawal."""
    with gr.Accordion("Your submissions", open=False, visible=False, elem_id="own") as part:
        chosen = gr.Dropdown(label="Submission", elem_id="own-submission")
        reason = gr.Textbox(label="Reason", placeholder="everyone can read this", elem_id="own-reason")
        press = gr.Button("Withdraw", variant="stop", elem_id="withdraw")
        answer = gr.HTML(elem_id="withdrawn")

    def show(profile: gr.OAuthProfile | None) -> list[Any]:
        user = login.visitor(profile)
        return [gr.update(visible=bool(user)), gr.update(choices=own_submissions(catalogue.storage, user), value=None)]

    def on_press(id: str | None, reason: str, profile: gr.OAuthProfile | None) -> str:
        try:
            if not id:
                raise SubmissionError("no submission was chosen; choose one of yours")
            found = withdraw(catalogue.storage, id, login.sender(profile), reason)
        except VLAssayError as error:
            return message(str(error), is_error=True)
        catalogue.refresh()
        return message(f"{found.id} is withdrawn.")

    event = press.click(on_press, [chosen, reason], answer, api_visibility="private")
    return show, [part, chosen], event


def _result_table(result: Result) -> Markup:
    found = []
    for line in lines(result):
        cells = []
        for score in line.scores.values():
            span = f" [{interval(score.interval)}]" if score.interval else ""
            cells.append("" if score.value is None else f"{percent(score.value)} %{span}")
        found.append((line.name, [*cells, f"{line.n:,}"]))
    return table(["", *map(words, result.table_scores), "n"], found, title=title(result))
