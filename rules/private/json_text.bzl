"""JSON as unchanged text: decoding and encoding in Starlark changes the bytes of letters beyond ASCII."""

def json_object(parts):
    """The text of an object.

    Args:
        parts: dict, the text of each value by its name.

    Returns:
        string, JSON.
    """
    return "{%s}" % ",".join(["%s:%s" % (json.encode(name), text) for name, text in parts.items()])

def json_with(text, values):
    """The text of an object with further values.

    Args:
        text: string, JSON: an object without any of these names.
        values: dict, the values by their names.

    Returns:
        string, JSON.
    """
    own = text.strip()[1:-1].strip()
    further = json.encode(values)[1:-1]
    return "{%s}" % ",".join([part for part in (own, further) if part])
