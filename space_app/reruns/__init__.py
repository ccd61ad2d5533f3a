"""Re-runs of submitted models. What happens to one:

1. A maintainer queues the model of a submission (`queue.queue_rerun`). It has to be a public repository of the Hub at a
   commit, with safetensors (`public_models`).
2. A worker on a machine with a GPU takes the job (`queue.take`), downloads the weights and runs `vl-assay predict` in a
   process without secrets and with a limit of time (`worker`). It validates the predictions as an upload, and stores
   them beside those that were submitted.
3. ``board/catalogue.py`` compares both by `agreement`, and the pages show it.
"""
