"""Listeners that tell the outside what the guard saw; all have the shape `(verdict, event) -> None`."""
