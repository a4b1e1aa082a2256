"""Command lines that wire towers, models, inputs and configs together."""
