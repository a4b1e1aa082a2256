"""Draws street scenes: `scene.draw` composes them; see `inputs.synthetic` for writing them to disk."""
