"""The engine: a model's protocol, plan, loader, store, stages, precision, ranks, shards. From an image to the GPU:

1. ``plan.py`` lists each distinct image once, under its content key; ``store.py`` says which have no result yet.
2. ``stages.py`` makes batches of these, and `loader.Loader.batches` prepares them ahead of the model, in forked workers
   or threads: `ScoringPlan.load` reads the bytes of the dataset, ``core/images.py`` decodes them, and the model's
   `prepare_image` resizes (``loading/torch_models.py``).
3. The loader stacks the images of a batch into one array, `Stacked`, in pinned memory.
4. `to_device` copies it while the batch before is computed, and `encode_images` returns results that stay on the device
   until a block is full and ``store.py`` writes it.

With ``--decode gpu`` the workers only read bytes, and ``gpu_decoding.py`` decodes and resizes on the device.
"""
