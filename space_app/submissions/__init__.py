"""Submissions. What happens to an upload:

1. ``pages/submit.py`` passes the files that a visitor, or `client.send`, uploads to `submissions.submit`, with the
   verified name of the user from `login`; without one it is refused. `submissions.submit` checks the typed fields, and
   refuses more than the hourly limit; "Check" calls `submissions.preview`, which stores nothing.
2. `uploads.check_upload` validates each file against its benchmark: it opens the file in the process of `sandbox`, with
   limits of memory and time, and compares every row with the dataset.
3. `plausibility.find_flags` looks for signs of a blind or broken model. Flags never refuse a submission; a flagged one
   waits for a maintainer. Copies of stored submissions are flagged later, while storing (`submissions._copied`).
4. The sandbox computes the results from the predictions, as `vl-assay report` does.
5. `submissions.submit` stores record and files in one addition to ``storage``, then the results, and returns a receipt.
6. ``board/catalogue.py`` reads accepted submissions back through ``storage/records.py`` and shows them.
   `submissions.review` and `submissions.withdraw` change a status by adding a review; nothing stored is changed.
"""
