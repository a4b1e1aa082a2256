"""From another code base's arrays to our variables, with a report that leaves no name of either side out.

Kernels become [height, width, inputs, outputs]. The first one also takes up the difference in input. We feed
y = (rgb − μ)/σ; the format's network was fed g·(rgb − z), z its mean, g = 1/std. With w its kernel, channels put in the
order R, G, B,

    g_c·(rgb_c − z_c) = g_c·σ_c·y_c + g_c·(μ_c − z_c)
    kernel[i, j, c, o] = w[i, j, c, o]·g_c·σ_c
    shift[o]           = Σ_ijc w[i, j, c, o]·g_c·(μ_c − z_c)
    moving_mean[o]     = theirs − shift[o]

The scale is exact everywhere. The shift is exact wherever the whole kernel lies inside the image; along the border, where
zeros stand for μ here and for z there, it is not. It is 0, and all is exact, with `config.input.mean` set to z: the report
says so where it is not. Batch statistics, in training, take up any shift by themselves.
"""

import fnmatch

import numpy as np

from models.pretrained.formats import FORMATS

STEM_KERNEL, STEM_MEAN = "resnet/stem/conv1/kernel", "resnet/stem/bn1/moving_mean"
_EPSILON = 1e-5  # of batch norm in all formats


class WeightsMismatch(ValueError):
    """Names that do not fit, in one line; `report` has all of them."""

    def __init__(self, message, report):
        super(WeightsMismatch, self).__init__(message)
        self.report = report


class Report(object):
    """What became of every name in the file and of every variable of the network.

    Lists of tuples, each in the order of names: `matched` and `converted` (name, variable, what was done), `skipped`
    (name, reason), `initial` (variable, reason) for those that keep their initial values, `allowed` and `problems` (name,
    what is wrong); `notes` are sentences.
    """

    def __init__(self):
        self.matched, self.converted, self.skipped, self.initial = [], [], [], []
        self.allowed, self.problems, self.notes = [], [], []

    def summary(self):
        """Text: the counts, then what did not go its plain way."""
        lines = ["matched     {:4d}  taken as they are".format(len(self.matched)),
                 "converted   {:4d}  {}".format(len(self.converted), _counted(how for _, _, how in self.converted)),
                 "skipped     {:4d}  {}".format(len(self.skipped), _counted(reason for _, reason in self.skipped)),
                 "initial     {:4d}  {}".format(len(self.initial), _counted(reason for _, reason in self.initial)),
                 "allowed     {:4d}".format(len(self.allowed))]
        lines += ["    {}: {}".format(*item) for item in self.allowed]
        lines += ["problems    {:4d}".format(len(self.problems))]
        lines += ["    {}: {}".format(*item) for item in self.problems]
        lines += ["note: " + note for note in self.notes]
        return "\n".join(line.rstrip() for line in lines)

    def table(self):
        """Text: a line for every name."""
        lines = ["{} -> {} ({})".format(*item) for item in self.matched + self.converted]
        lines += ["{} skipped ({})".format(*item) for item in self.skipped]
        lines += ["{} keeps its initial value ({})".format(*item) for item in self.initial]
        return "\n".join(lines)


def convert(arrays, format_name, shapes, input_mean, input_std, pyramid_bins=(1, 2, 3, 6), norm_epsilon=_EPSILON, allow=()):
    """The network's variables out of another code base's arrays.

    Args:
      arrays: dict from their name to array.
      format_name: one of `FORMATS`.
      shapes: dict from our name to shape: the variables of the network that is to take them.
      input_mean, input_std: what our network is fed with, (rgb - mean) / std, three numbers each.
      pyramid_bins, norm_epsilon: as the network has them.
      allow: shell patterns; a name of theirs or of ours that one of them matches may be left out.
    Returns:
      (dict from our name to float32 array, Report).
    Raises:
      WeightsMismatch: a name that nothing is known of, that the network has not, of another shape, of another kind than
        floating point or not finite; or a variable of the network that the file should have and has not.
    """
    entry, report = FORMATS[format_name], Report()
    if entry.mean is None:  # the notes that an import of before left in a checkpoint of ours
        entry = entry._replace(mean=arrays.get("imported/input_mean", input_mean),
                               std=arrays.get("imported/input_std", input_std))
    values, sources, done, faulty = {}, {}, {}, set()  # under our names: array, their name, what was done to it

    used = set()

    def problem(name, text, *others):
        permitting = {pattern for pattern in allow for n in (name,) + others if fnmatch.fnmatchcase(n, pattern)}
        (report.allowed if permitting else report.problems).append((name, text))
        used.update(permitting)

    for name in sorted(arrays):
        variable = entry.variable(name, pyramid_bins)
        reason = entry.skipped(name) if variable is None else None
        if reason:
            report.skipped.append((name, reason))
        elif variable is None:
            problem(name, "unmatched: no name of format {}".format(entry.name))
        elif variable not in shapes:
            problem(name, "missing in the network: it would be {}".format(variable), variable)
        elif variable in sources:
            problem(name, "both it and {} would be {}".format(sources[variable], variable), variable)
        else:
            array, changes = _laid_out(arrays[name], variable, entry)
            fault = _fault(arrays[name], array, variable, shapes[variable])
            if fault:
                problem(name, "{} ({})".format(fault, variable), variable)
                faulty.add(variable)
                continue
            sources[variable], done[variable] = name, changes
            values[variable] = np.asarray(array, np.float32)
    for variable in sorted(set(shapes) - set(values)):
        if not entry.whole and not variable.startswith("resnet/"):
            report.initial.append((variable, "the format has no head"))
            continue
        if variable not in faulty:
            problem(variable, "missing in the file")
        report.initial.append((variable, "the file has no value that fits"))
    _fold_input(values, entry, input_mean, input_std, done, report)
    for variable, name in sorted(sources.items(), key=lambda item: item[1]):
        kept = report.converted if done[variable] else report.matched
        kept.append((name, variable, ", ".join(done[variable]) or "as it is"))
    for pattern in sorted(set(allow) - used):
        report.notes.append("nothing had to be allowed by the pattern {}".format(pattern))
    if abs(norm_epsilon - _EPSILON) > 1e-9:
        report.notes.append("these weights were trained with a batch norm epsilon of {:g}, the network has {:g}".format(
            _EPSILON, norm_epsilon))
    if report.problems:
        raise WeightsMismatch(_message(report, arrays, entry, pyramid_bins), report)
    return values, report


def _laid_out(array, variable, entry):
    """The array in our layout, and a list of what was done; unchanged if its rank is no kernel's."""
    array, done = np.asarray(array), []
    if variable.endswith("/kernel") and array.ndim == 4:
        if entry.layout == "OIHW":
            array = array.transpose(2, 3, 1, 0)
            done.append("OIHW to HWIO")
        if variable == STEM_KERNEL and entry.channels == "BGR":
            array = array[:, :, ::-1]
            done.append("BGR to RGB")
    return np.ascontiguousarray(array), done


def _fault(theirs, array, variable, shape):
    """What keeps an array from being a variable's value, or None; `theirs` is the array as it was stored."""
    if list(array.shape) != list(shape):
        turned = "" if theirs.shape == array.shape else " (in our layout {})".format(list(array.shape))
        return "misshapen: {}{} in the file, {} in the network".format(list(theirs.shape), turned, list(shape))
    if array.dtype.kind != "f" and array.dtype.name != "bfloat16":
        return "is {}, no floating point".format(array.dtype.name)
    if not np.isfinite(array.astype(np.float32)).all():
        return "is not finite"
    if variable.endswith("/moving_variance") and (array < 0).any():
        return "is a variance and below 0"
    return None


def _fold_input(values, entry, input_mean, input_std, done, report):
    """Makes the stem take our input where it took the format's."""
    if STEM_KERNEL not in values:
        return
    theirs = values[STEM_KERNEL].astype(np.float64)
    scale = np.divide(input_std, entry.std)
    if abs(scale - 1).max() > 1e-6:
        values[STEM_KERNEL] = (theirs * scale[:, None]).astype(np.float32)
        done[STEM_KERNEL].append("input scale")
    offset = np.subtract(input_mean, entry.mean) / entry.std
    if abs(offset).max() > 1e-6:
        if STEM_MEAN in values:
            shift = np.einsum("ijco,c->o", theirs, offset)
            values[STEM_MEAN] = (values[STEM_MEAN] - shift).astype(np.float32)
            done[STEM_MEAN].append("input mean")
        report.notes.append(
            "config.input.mean is {0}, these weights want {1}: the first batch norm takes up the difference, exactly but "
            "along the border of the image; exact there too with --config.input.mean={1} here and for train.py".format(
                _numbers(input_mean), _numbers(entry.mean)))


def _message(report, arrays, entry, bins):
    """One line: how many names do not fit, the first of them, and what could be done."""
    told = "; ".join("{}: {}".format(*item) for item in report.problems[:4])
    rest = len(report.problems) - 4
    message = "{} name{} not fit: {}{}".format(
        len(report.problems), " does" if len(report.problems) == 1 else "s do", told,
        "; and {} more".format(rest) if rest > 0 else "")
    known = {other.name: sum(other.variable(name, bins) is not None for name in arrays) for other in FORMATS.values()}
    best = max(known, key=lambda name: known[name])
    if known[best] > known[entry.name]:
        return message + "; of the {} names in the file {} are of format {}, {} of {}".format(
            len(arrays), known[best], best, known[entry.name], entry.name)
    return message + "; name what may be left out with --allow=PATTERN"


def _counted(texts):
    texts = list(texts)
    return "; ".join("{} {}".format(texts.count(text), text) for text in sorted(set(texts)))


def _numbers(values):
    return "({})".format(",".join("{:g}".format(v) for v in values))
