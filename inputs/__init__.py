"""Data: the Cityscapes layout, drawn street scenes, augmentation and batching, as tf.data graphs.

    labels        the label table: labelIds, trainIds, names, colours
    cityscapes    finds the images and labels of a split and checks them before a run
    decoding      reads one image and its label in the graph, or one image in Python
    augmentation  the recipe's augmentation, stateless, computed only where the crop needs it
    pipeline      training and evaluation data sets that continue exactly from any step
    synthetic     draws street scenes to disk in the Cityscapes layout

Knows nothing of towers or networks. Users need graph mode (`tf.disable_eager_execution()`).
"""
