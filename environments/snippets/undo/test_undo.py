from undo import Editor


def edited(*texts):
    editor = Editor("a")
    for text in texts:
        editor.change(text)
    return editor


def test_change():
    assert edited("b").text == "b"


def test_undo():
    editor = edited("b", "c")
    assert editor.undo() is True
    assert editor.text == "b"


def test_nothing_to_undo():
    assert Editor().undo() is False


def test_redo():
    editor = edited("b")
    editor.undo()
    assert editor.redo() is True
    assert editor.text == "b"


def test_undo_after_redo():
    editor = edited("b")
    editor.undo()
    editor.redo()
    editor.undo()
    assert editor.text == "a"


def test_nothing_to_redo():
    assert edited("b").redo() is False


def test_change_forgets_redo():
    editor = edited("b")
    editor.undo()
    editor.change("c")
    assert editor.redo() is False


def test_no_change():
    assert edited("a").undo() is False
