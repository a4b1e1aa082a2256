"""Data: the Cityscapes layout, drawn street scenes, augmentation and batching, as tf.data graphs.

    labels        the label table: labelIds, trainIds, names, colours
    cityscapes    finds the images and labels of a split in the Cityscapes layout
    ade20k        the same in the layout of the ADE20K challenge, with its 150 classes
    image_files   opens a file with PIL, and says in one line why one cannot be used
    examples      what an example is, and the check of its files before a run
    decoding      reads one image and its label in the graph
    photographs   finds image files and reads one in Python, the right way up
    transforms    image operations that compute no more than a window of their result
    augmentation  the recipe's augmentation: what is drawn, stateless, and in which order it is applied
    pipeline      training and evaluation data sets that continue exactly from any step
    synthetic     draws street scenes to disk in the Cityscapes layout; what is in them is in street/

Knows nothing of towers or networks. Users need graph mode (`tf.disable_eager_execution()`).
"""
