"""Small sources in the layout of What'sUp."""

import json

from noise import write_noise

PLACES = {
    "controlled_images": ("data/controlled_images", "."),
    "controlled_clevr": ("data/controlled_clevr", "."),
    "val2017": ("data/val2017", "."),
    "vg_images": ("data/vg_images", "."),
}
CONTROLLED = {
    "controlled_images": ("pillow", "chair", ("left_of", "right_of", "on", "under")),
    "controlled_clevr": ("cup", "plate", ("left_of", "right_of", "in-front_of", "behind")),
}


def make(folder):
    for stem, (first, second, relations) in CONTROLLED.items():
        rows, images = [], []
        for relation in relations:
            options = [f"A {first} {each.replace('_', ' ')} a {second}" for each in relations]
            options.insert(0, options.pop(relations.index(relation)))
            images.append(folder / stem / f"{first}_{relation}_{second}.jpeg")
            rows.append({"image_path": f"data/{stem}/{images[-1].name}", "caption_options": options})
        (folder / f"{stem}_dataset.json").write_text(json.dumps(rows), encoding="utf-8")
        write_noise(images, 20, 24)
    for source, images, width in (("coco", "val2017", 12), ("vg", "vg_images", 1)):
        for count, where in (("one", "A photo of a cat on the {}"), ("two", "A photo of a cat to the {} of a dog")):
            sides = ("left", "right"), ("right", "left")
            rows = [[n + 7, where.format(true), where.format(false)] for n, (true, false) in enumerate(sides)]
            (folder / f"{source}_qa_{count}_obj.json").write_text(json.dumps(rows), encoding="utf-8")
        write_noise([folder / images / f"{number:0{width}}.jpg" for number in (7, 8)], 20, 24)
    return {"verify": False}
