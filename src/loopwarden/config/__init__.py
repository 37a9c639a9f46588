"""What a person writes, and the settings that come of it."""

from loopwarden.config.load import Config, Setting, load_config
from loopwarden.config.schema import json_schema

__all__ = ["Config", "Setting", "json_schema", "load_config"]
