"""The version of this module."""

VERSION = "0.1.0"
