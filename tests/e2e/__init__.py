"""Whole agents over real processes: the gateway or the command line, a scripted model, real tools."""
