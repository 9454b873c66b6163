"""The version of this module."""

VERSION = "0.2.0"
