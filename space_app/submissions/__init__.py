"""Submissions. What happens to an upload:

1. `traffic.UploadLimit` refuses requests that are too large, too slow or too many. ``pages/submit.py`` passes the files
   to `submissions.submit`, with the verified name of the user from `login`; on a Space, sending without one is refused,
   elsewhere the receipt has a key that withdraws the submission. `submissions.submit` checks the typed fields, and
   refuses more than the hourly limit; "Check" calls `submissions.preview`, which stores nothing.
2. `uploads.check_upload` validates each file against its benchmark: it opens the file in the process of `sandbox`, with
   limits of memory and time, and compares every row with the dataset.
3. `plausibility.find_flags` looks for signs of a blind or broken model. Flags never refuse a submission; a flagged one
   waits for a maintainer. Copies of stored submissions and of shipped models are flagged while storing
   (`submissions._compare`).
4. The sandbox computes the results from the predictions, as `vl-assay report` does.
5. `submissions.submit` stores record and files in one addition to ``storage``, then the results, and returns a receipt.
6. ``board/catalogue.py`` reads accepted submissions back through ``storage/records.py`` and shows them.
   `submissions.review` and `submissions.withdraw` change a status by adding a review; nothing stored is changed.
   `submissions.finish` computes at the start of the server what a killed one left without results.
"""
