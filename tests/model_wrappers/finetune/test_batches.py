"""What each step draws: every sample once an epoch, reproducibly, and from any position."""

from collections import Counter

import numpy as np

from vl_assay.model_wrappers.finetune.data.batches import draw_epoch, steps_per_epoch
from vl_assay.model_wrappers.finetune.data.samples import FileImages
from vl_assay.model_wrappers.finetune.data.training_set import Sample, TrainingSet


def made(count, negatives=2, positives=1):
    samples = [
        Sample(
            f"{n}.png",
            f"caption {n}",
            tuple(f"n{n}.{i}" for i in range(negatives)),
            tuple(f"p{n}.{i}" for i in range(positives)),
            str(n),
        )
        for n in range(count)
    ]
    return TrainingSet("made", samples, FileImages())


def drawn(training_set, epoch=0, seed=0, batch_size=4, **options):
    return list(draw_epoch(training_set, epoch=epoch, seed=seed, batch_size=batch_size, **options))


def test_an_epoch_has_every_sample_once_in_full_batches_with_its_own_texts():
    batches = drawn(made(12, negatives=3, positives=2))
    assert [len(batch) for batch in batches] == [4, 4, 4]
    assert sorted(int(each.id) for batch in batches for each in batch) == list(range(12))
    for each in (each for batch in batches for each in batch):
        assert each.caption == f"caption {each.id}"
        assert each.negative.startswith(f"n{each.id}.")
        assert each.positive.startswith(f"p{each.id}.")
    assert [len(batch) for batch in drawn(made(11))] == [4, 4] == [4] * steps_per_epoch(made(11), 4)
    assert [len(batch) for batch in drawn(made(3))] == [3]


def test_epochs_and_seeds_differ_and_are_reproducible():
    training_set = made(40, negatives=4)
    by_epoch = [drawn(training_set, epoch=n, seed=s) for n in range(3) for s in range(2)]
    assert by_epoch == [drawn(training_set, epoch=n, seed=s) for n in range(3) for s in range(2)]
    orders = {tuple(each.id for batch in batches for each in batch) for batches in by_epoch}
    choices = {tuple(sorted(each.negative for batch in batches for each in batch)) for batches in by_epoch}
    assert len(orders) == len(choices) == len(by_epoch)


def test_an_epoch_resumes_at_any_batch():
    training_set = made(40, negatives=4)
    near = {f"{n}.png": [f"{(n + i) % 40}.png" for i in (1, 2, 3)] for n in range(40)}
    whole = drawn(training_set, neighbours=near)
    for start in range(11):
        assert drawn(training_set, neighbours=near, start=start) == whole[start:]


def test_all_negatives_and_neighbours_come_equally_often():
    training_set = made(300, negatives=3)
    near = {f"{n}.png": [f"{(n + i) % 300}.png" for i in (1, 2, 3)] for n in range(300)}
    negatives, neighbours = Counter(), Counter()
    for epoch in range(20):
        for batch in drawn(training_set, epoch, batch_size=10, neighbours=near):
            samples, added = batch[:10], batch[10:]
            negatives.update(int(each.negative.partition(".")[2]) for each in batch)
            neighbours.update((int(b.id) - int(a.id)) % 300 for a, b in zip(samples, added, strict=True))
    for counts, total in ((negatives, 12_000), (neighbours, 6_000)):
        shares = np.array([counts[key] / total for key in sorted(counts)])
        # Three standard errors of a share of 1/3 are 0.013 for 12,000 draws and 0.018 for 6,000.
        assert len(shares) == 3
        assert np.abs(shares - 1 / 3).max() < 0.018


def test_a_neighbour_brings_one_of_its_captions_with_its_own_negative():
    samples = [
        Sample("a", "a1", ("not a1",), (), "0"),
        Sample("b", "b1", ("not b1",), ("yes b1",), "1"),
        Sample("b", "b2", ("not b2",), (), "2"),
    ]
    training_set = TrainingSet("made", samples, FileImages())
    near = {"a": ["gone", "b"], "b": ["gone"]}
    seen = Counter()
    for epoch in range(60):
        [batch] = drawn(training_set, epoch, batch_size=3, neighbours=near)
        assert len(batch) == 4
        assert batch[3].image == "b"
        assert batch[3].negative == f"not {batch[3].caption}"
        seen[batch[3].caption] += 1
    assert set(seen) == {"b1", "b2"}


def test_every_epoch_of_a_frozen_set_has_the_same_texts_and_all_are_kept_equally_often():
    free = made(60, negatives=2, positives=2)
    kept = Counter()
    for seed in range(20):
        frozen = free.frozen(seed)
        by_epoch = [{each.id: each[2:4] for batch in drawn(frozen, epoch) for each in batch} for epoch in (0, 1)]
        assert by_epoch[0] == by_epoch[1]
        assert all(len(each.negatives) == len(each.positives) == 1 for each in frozen.samples)
        kept.update(each.negatives[0].partition(".")[2] for each in frozen.samples)
    # 1,200 choices among two: 600 each, with a standard deviation of sqrt(1200 / 4) = 17.
    assert abs(kept["0"] - 600) < 70
    assert free.frozen(3).fingerprint == free.frozen(3).fingerprint != free.frozen(4).fingerprint
