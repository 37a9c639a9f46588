"""Notices when an AI agent goes round in circles with its tools."""
