"""Recipes: one file each, plain values, no TensorFlow."""
