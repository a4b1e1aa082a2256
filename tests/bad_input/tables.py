"""What users get wrong, a line each: what it is, how it is made, a part of the message it must end with, the exit code.

None for a message: it works. `test_bad_input.py` says how each table is run. In commands, {file} is a file and {tmp} an empty
folder.
"""

import json

import numpy as np

from tests.bad_input import pictures as p
from tests.bad_input import runs as r
from tests.bad_input import weights as w

PNG, JPEG = p.of(), p.of(kind="JPEG", quality=95)
WEB, POINTER = b"<!DOCTYPE html><html>sign in</html>", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n"

# An image of the data set, or one to predict.  file        message of train.py           message of predict.py
IMAGES = [
    ("grey PNG",                   p.of("L"),                          None,                         None),
    ("one bit a pixel",            p.of("1"),                          None,                         None),
    ("grey with alpha",            p.of("LA"),                         None,                         None),
    ("colours with alpha",         p.alpha(),                          None,                         None),
    ("palette",                    p.of("P"),                          None,                         None),
    ("palette with a clear colour", p.of("P", transparency=3),          None,                        None),
    ("16 bits",                    p.sixteen_bits(),                   None,                         None),
    ("interlaced PNG",             p.interlaced(),                     None,                         None),
    ("note of a turned camera",    p.turned(),                         None,                         None),
    ("animated PNG",               p.animated("PNG"),                  None,                         None),
    ("bytes after the end",        PNG + b"more" * 50,                 None,                         None),
    ("GIF called .png",            p.of("P", "GIF"),                   "is no PNG but GIF",          None),
    ("animated GIF called .png",   p.animated("GIF"),                  "is no PNG but GIF",          None),
    ("JPEG called .png",           JPEG,                               "is no PNG but JPEG",         None),
    ("BMP called .png",            p.of(kind="BMP"),                   "is no PNG but BMP",          None),
    ("TIFF called .png",           p.of(kind="TIFF"),                  "is no PNG but TIFF",         None),
    ("WebP called .png",           p.of(kind="WEBP"),                  "is no PNG but WEBP",         None),
    ("numbers of 32 bits",         p.of(kind="TIFF", array=np.full([9, 9], 1e6, np.float32)), "TIFF", "not of 8 or 16 bits"),
    ("no bytes",                   b"",                                "0 bytes",                    "0 bytes"),
    ("words",                      b"these are words " * 9,            "begins with b'these",        "begins with b'these"),
    ("a web page",                 WEB,                                "web page",                   "web page"),
    ("a Git LFS pointer",          POINTER,                            "Git LFS pointer",            "Git LFS pointer"),
    ("nothing behind the signature", PNG[:8],                          "broken or truncated",        "broken or truncated"),
    ("PNG cut in two",             p.cut(PNG),                         "broken or truncated",        "broken or truncated"),
    ("PNG with a byte altered",    p.flipped(p.noise()),              "broken or truncated",        "broken or truncated"),
    ("PNG with half its rows",     p.half_the_rows(),                  "broken or truncated",        "broken or truncated"),
    ("PNG of no width",            p.png(0, 9, b""),                   "broken or truncated",        "broken or truncated"),
    ("PNG that claims 60000x60000", p.huge(),                          "3,600,000,000 pixels",       "3,600,000,000 pixels"),
]

# An image in the ADE20K layout, whose images are JPEGs.
JPEGS = [
    ("JPEG",                       JPEG,                               None),
    ("grey JPEG",                  p.of("L", "JPEG", quality=95),      None),
    ("CMYK JPEG",                  p.of("CMYK", "JPEG", quality=95),   None),
    ("progressive JPEG",           p.of(kind="JPEG", quality=95, progressive=True), None),
    ("JPEG of a turned camera",    p.turned("JPEG"),                   None),
    ("JPEG with bytes after it",   JPEG + b"more" * 50,                None),
    ("PNG called .jpg",            PNG,                                "is no JPEG but PNG"),
    ("JPEG cut in two",            p.cut(JPEG),                        "broken or truncated"),
    ("JPEG without its last bytes", p.cut(JPEG, 0.97),                 "broken or truncated"),
    ("JPEG of no bytes",           b"",                                "0 bytes"),
    ("JPEG that claims 60000x60000", p.huge("JPEG"),                   "3,600,000,000 pixels"),
]

ROAD = np.full([p.HEIGHT, p.WIDTH], 7, np.uint8)
COLOURS = p.of(array=np.stack([np.full_like(ROAD, 128), np.full_like(ROAD, 64), np.full_like(ROAD, 128)], -1))

# A label file beside a sound image of 64x48, in the Cityscapes layout.
LABELS = [
    ("class numbers",              p.of(array=ROAD),                   None),
    ("nothing but ignored pixels", p.of(array=0 * ROAD),               None),
    ("an id that is none",         p.of(array=ROAD + 70),              "holds the value 77"),
    ("another size",               p.of(array=ROAD[:, :60]),           "60x48"),
    ("colours in place of ids",    COLOURS,                            "give the file of numbers"),
    ("a palette of the colours",   p.of("P"),                          "give the file of numbers"),
    ("ids with alpha",             p.of("LA", array=ROAD),             "found mode LA"),
    ("ids in 16 bits",             p.of(array=ROAD.astype(np.uint16)), "with 16 bits"),
    ("ids in one bit",             p.of("1", array=ROAD),              "found mode 1"),
    ("ids as a JPEG",              p.of(kind="JPEG", array=ROAD),      "is no PNG but JPEG"),
    ("a label of no bytes",        b"",                                "0 bytes"),
    ("a label cut in two",         p.cut(p.of(array=ROAD)),            "broken or truncated"),
    ("a label that claims 60000x60000", p.png(60000, 60000, b"\0" * 99, color=0), "3,600,000,000 pixels"),
]

# The layout: functions of files.Layout, in layouts.py; the script is train.py.
LAYOUTS = [
    ("an image without its label",       "no_label",       "image without its label"),
    ("one name in two cities",           "same_name",      "two images have the name"),
    ("a folder called as an image",      "folder_image",   "it is a folder"),
    ("a folder called as a label",       "folder_label",   "image without its label"),
    ("an image that links to itself",    "link_to_itself", "a symbolic link that leads nowhere"),
    ("an image that links to nothing",   "dead_link",      "a symbolic link that leads nowhere"),
    ("an image that may not be read",    "no_permission",  "Permission denied"),
    ("a split without images",           "empty_split",    "nothing matches"),
    ("a split that is not there",        "no_split",       "the splits there are: val"),
    ("--data_dir without the layout",    "no_layout",      "has no folder leftImg8bit"),
    ("--data_dir that is not there",     "no_folder",      "is not a folder"),
    ("--data_dir that is a file",        "a_file",         "is not a folder"),
    ("letters beyond ASCII",             "beyond_ascii",   None),
    ("spaces and brackets",              "spaces",         None),
    ("a name of 255 bytes",              "long_name",      None),
    ("a name that is no text",           "no_text",        None),
    ("a folder that links to itself",    "link_loop",      None),
    ("images by links",                  "good_links",     None),
]

# The six files of CIFAR-10: data_batch_1.bin is altered (None: taken away).
CIFAR = [
    ("a batch that is missing",    None,                               "lacks the file"),
    ("a batch of no bytes",        b"",                                "has 0 bytes"),
    ("a batch that was cut",       b"\1" * 5000,                       "no whole number of records"),
    ("a label that is none",       b"\x0a" + b"\0" * 3072,             "the label of record 0 is 10"),
    ("labels at another place",    b"\0" * 3073 + b"\x63" + b"\0" * 3072, "the label of record 1 is 99"),
]

# The command line of train.py behind a good one.
FLAGS = [
    ("a misspelt flag",            "--num_gpu=2",                      "num_gpu",                    2),
    ("a misspelt setting",         "--config.batch_siz=2",             "did you mean 'batch_size'",  2),
    ("a misspelt part",            "--config.optimiser.momentum=0.9",  "optimiser",                  2),
    ("a word for a number",        "--config.batch_size=two",          "two",                        2),
    ("a fraction of an image",     "--config.batch_size=2.5",          "2.5",                        2),
    ("a word for a flag",          "--num_gpus=two",                   "num_gpus",                   2),
    ("no towers",                  "--num_gpus=0",                     "num_gpus",                   2),
    ("fewer than no steps",        "--max_steps=-1",                   "max_steps",                  2),
    ("an unknown device",          "--device_type=tpu",                "cpu|gpu",                    2),
    ("an unknown way with images", "--on_bad_image=ignore",            "stop|skip",                  2),
    ("steps to profile that are none", "--profile=a,b",                "--profile",                  2),
    ("a batch below 0",            "--config.batch_size=-4",           "config.batch_size is -4",    2),
    ("a batch beyond int32",       "--config.batch_size=99999999999",  "config.batch_size",          2),
    ("a momentum that is no number", "--config.optimizer.momentum=nan", "momentum is nan",           2),
    ("an infinite learning rate",  "--config.optimizer.learning_rate=inf", "learning_rate is inf",   2),
    ("a probability of 2",         "--config.input.flip_probability=2", "flip_probability is 2.0",   2),
    ("a scale below 0",            "--config.eval.scales=(-1.0,)",     "eval.scales",                2),
    ("an infinite scale",          "--config.eval.scales=(1e999,)",    "eval.scales",                2),
    ("a crop that fills memory",   "--config.input.crop_size=(99999,99999)", "at most 16384|1 to 16384", 2),
    ("a path for a split",         "--config.train_split=../train",    "config.train_split",         2),
    ("weights for two classes",    "--config.loss.class_weights=(1.0,2.0)", "class_weights",         2),
    ("21 classes of Cityscapes",   "--config.num_classes=21",          "it must be 19",              2),
    ("a batch that towers do not share", "--num_gpus=3 --config.batch_size=2", "3 towers",           2),
    ("runs that do not divide the batch", "--config.batch_size=6 --config.accumulate_steps=4", "4 runs", 2),
    ("a crop that the network cannot take", "--config.input.crop_size=(49,66)", "65",                2),
    ("a data set of another script", "--config.dataset=cifar10",       "train_classifier.py",        2),
    ("no checkpoint to start from", "--config.init_checkpoint={tmp}/none", "no checkpoint to start from", 1),
    ("model_dir is a file",        "--model_dir={file}",               "not a folder",               2),
]

# The text of the file that --config names; {0} for its path.
CONFIGURATIONS = [
    ("no Python",                  "def get_config(:\n",               "line 1: SyntaxError",        2),
    ("not UTF-8",                  b"x = '\xff\xfe'\n",                "SyntaxError",                2),
    ("nothing in it",              "",                                 "no function get_config()",   2),
    ("get_config is no function",  "get_config = 3\n",                 "get_config",                 2),
    ("an import that fails",       "import nowhere_to_be_found\n",     "line 1: ModuleNotFoundError", 2),
    ("an error in get_config",     "def get_config():\n    return {}['lost']\n", "line 2: KeyError", 2),
    ("get_config wants arguments", "def get_config(x, y):\n    return x\n", "get_config",            2),
    ("a number",                   "def get_config():\n    return 3\n", "must return a ConfigDict",  2),
    ("nothing returned",           "def get_config():\n    pass\n",    "must return a ConfigDict",   2),
    ("a part that is a number",    "{base}    c.model = 3\n    return c\n", "line 4: TypeError",     2),
    ("a part that is missing",     "{base}    del c.model\n    return c\n", "config.model is missing", 2),
    ("a setting that is none",     "{base}    c.sped = 1\n    return c\n", "config.sped is no setting", 2),
    ("True for a number of steps", "{base}    c.max_steps = True\n    return c\n", "max_steps is True", 2),
    ("a word for a yes or no",     "{base}    c.eval.flip = 'no'\n    return c\n", "line 4: TypeError", 2),
    ("it leaves the program",      "raise SystemExit('gone')\n",       "line 1: SystemExit: gone",                       2),
    ("it does not end by itself",  "def f():\n    return f()\nf()\n",  "RecursionError",             2),
]

# A trained run of one step, spoilt, and what evaluate.py says of it ("train": what train.py does, which resumes it).
RUNS = [
    ("an index of no bytes",       r.index(b""),                       "too short to be an sstable", "evaluate"),
    ("an index that is an image",  r.index(PNG),                       "bad magic number",           "evaluate"),
    ("values of no bytes",         r.data(b""),                        "is damaged",                 "evaluate"),
    ("values of another kind",     r.data(b"junk" * 200000),           "is damaged",                 "evaluate"),
    ("a state of no bytes",        r.state(b""),                       "checkpoint",                 "evaluate"),
    ("a state that is no text",    r.state(bytes(range(256))),         "checkpoint is damaged",      "evaluate"),
    ("a state that names nothing there", r.state(b'model_checkpoint_path: "ckpt-7"'), "ckpt-7 is damaged", "evaluate"),
    ("no moving statistics",       r.without("moving_"),               "moving_mean [4] is not in it", "evaluate"),
    ("of another network",         r.without("stage2"),                "is of another network",      "evaluate"),
    ("other shapes",               r.replaced("conv1/kernel", lambda v: v[..., :1]), "there, [3, 3", "evaluate"),
    ("other types",                r.replaced("kernel", np.float64),   "is float64 there, float32 here", "evaluate"),
    ("weights that are no numbers", r.replaced("kernel", lambda v: v * np.float32(np.nan)), "is not finite", "evaluate"),
    ("a variance below 0",         r.replaced("moving_variance", lambda v: -1 - v), "is below 0",    "evaluate"),
    ("no step",                    r.without("global_step"),           "global_step not found",      "evaluate"),
    ("a step below 0",             r.replaced("global_step", lambda v: v * 0 - 7), "its global step is -7", "evaluate"),
    ("several steps",              r.replaced("global_step", lambda v: np.arange(3)), "step is [0, 1, 2]", "evaluate"),
    ("a step that is a fraction",  r.replaced("global_step", np.float32), "its global step is 1.0",  "evaluate"),
    ("other types, resumed",       r.replaced("kernel", np.float64),   "is float64 there, float32 here", "train"),
    ("no moving statistics, resumed", r.without("moving_"),            "moving_mean [4] is not in it", "train"),
    ("settings cut short",         r.settings(lambda s: json.dumps(s).encode()[:90]), "is no JSON of settings", "evaluate"),
    ("settings that are no text",  r.settings(lambda s: bytes(range(256))), "is no JSON of settings", "evaluate"),
    ("settings that are a list",   r.settings(lambda s: [1, 2]),       "is no JSON of settings",     "evaluate"),
    ("settings without end",       r.settings(lambda s: b"[" * 99999), "is no JSON of settings",     "evaluate"),
    ("a part that is a number",    r.settings(lambda s: dict(s, model=3)), "config.model is 3",      "evaluate"),
    ("a setting that is none",     r.settings(lambda s: dict(s, sped=3)), "config.sped is no setting", "evaluate"),
    ("a list of skipped that is none", lambda run: r.write(run + "/skipped.json", b"[]"), "is no list of skipped", "train"),
]

# A file that import_weights.py is given.
WEIGHTS = [
    ("no bytes",                   b"",                                "is empty"),
    ("an image",                   PNG,                                "is no TensorFlow checkpoint"),
    ("a web page",                 WEB,                                "is a web page"),
    ("a Git LFS pointer",          POINTER,                            "is a Git LFS pointer"),
    ("a pickle",                   w.pickled(),                        "can run any code"),
    ("an npz with a pickle in it", w.object_array(),                   "can run any code"),
    ("an npz cut in two",          p.cut(w.archive(("w.npy", w.npy(w.ARRAY)))), "cut off or damaged"),
    ("an npz of 4 TB by its header", w.archive(("w.npy", w.npy_claiming("(1000000000000,)"))), "cut off or damaged"),
    ("an npz of a shape below 0",  w.archive(("w.npy", w.npy_claiming("(-4,)"))), "cut off or damaged"),
    ("an npz with brackets for a header", w.archive(("w.npy", w.npy_header("(" * 90))), "cut off or damaged"),
    ("an npz with words for an array", w.archive(("w.npy", b"words")), "is no array"),
    ("an npz with a name twice",   w.archive(("w.npy", w.npy(w.ARRAY)), ("w.npy", w.npy(w.ARRAY))), "holds w.npy twice"),
    ("an npz with a parent's path", w.archive(("../../w.npy", w.npy(w.ARRAY))), "leads out of its folder"),
    ("an npz with an absolute path", w.archive(("/etc/w.npy", w.npy(w.ARRAY))), "leads out of its folder"),
    ("an npz that is encrypted",   w.encrypted(),                      "is encrypted"),
    ("an npz that would fill memory", w.inflating(8),                  "bytes unpacked"),
    ("a zip with a parent's path", w.archive(("../../etc/passwd", b"x")), "leads out of its folder"),
    ("a zip archive",              w.archive(("model.ckpt", b"x")),    "is a zip archive"),
    ("a tar with a parent's path", w.tar("../../model.ckpt"),          "leads out of its folder"),
    ("a tar archive",              w.tar("model.ckpt"),                "is a tar archive"),
    ("a tar.gz archive",           w.tar("model.ckpt", "w:gz"),        "is a gzip archive"),
    ("safetensors that overlap",   w.tensors(b"\0" * 24, a=([0, 16], [4], "F32"), b=([8, 24], [4], "F32")), "invalid offset"),
    ("safetensors beyond their end", w.tensors(a=([0, 1 << 40], [1 << 38], "F32")), "cut off or damaged"),
    ("safetensors of 2^124 numbers", w.tensors(b"", a=([0, 0], [1 << 62, 1 << 62], "F32")), "overflow"),
    ("safetensors with a hole",    w.tensors(b"\0" * 32, a=([16, 32], [4], "F32")), "invalid offset"),
    ("safetensors before their start", w.tensors(a=([-16, 0], [4], "F32")), "cut off or damaged"),
    ("safetensors of an unknown type", w.tensors(a=([0, 16], [4], "X9")), "unknown variant"),
    ("safetensors with a header of 400 MB", w.tensors(b"", 400 << 20, a=([0, 16], [4], "F32")), "header too large"),
    ("safetensors of nothing",     w.tensors(b""),                     "holds no arrays"),
    ("arrays of no network",       w.tensors(strange=([0, 16], [4], "F32")), "fit|unmatched"),
]
