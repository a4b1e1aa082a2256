"""Pretrained weights of other code bases, under the names and in the layout of this one.

    files.py       arrays by name out of a checkpoint, .npz, .safetensors or .pth; nothing in a file is executed
    formats.py     what each code base calls its weights, how it lays them out, and the input it feeds them
    conversion.py  from the one to the other, with a report in which every name of both sides is accounted for

`scripts/import_weights.py` is the command line. To add a format, add an entry to `formats.FORMATS` and its names to
tests/models/pretrained_names.py.
"""

from models.pretrained.conversion import Report, WeightsMismatch, convert  # noqa: F401
from models.pretrained.files import WeightsFileError, read  # noqa: F401
from models.pretrained.formats import FORMATS, Format  # noqa: F401
