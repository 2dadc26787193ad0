from csv_lines import join, split


def test_split():
    assert split("a,b,,c") == ["a", "b", "", "c"]
    assert split('"a,b",c') == ["a,b", "c"]
    assert split('"say ""hi""",x') == ['say "hi"', "x"]
    assert split("a;b", ";") == ["a", "b"]
    assert split("") == [""]


def test_join():
    assert join(["a", "b,c", 'd"e']) == 'a,"b,c","d""e"'
    assert join(["a", "b"], ";") == "a;b"


def test_round_trip():
    fields = ["", "x,y", '"', "plain"]
    assert split(join(fields)) == fields
