from lru import Cache


def test_get():
    cache = Cache()
    cache.put("a", 1)
    assert cache.get("a") == 1


def test_missing():
    cache = Cache()
    assert cache.get("a", 5) == 5
    assert (cache.hits, cache.misses) == (0, 1)


def test_hits():
    cache = Cache()
    cache.put("a", 1)
    cache.get("a")
    assert (cache.hits, cache.misses) == (1, 0)


def test_oldest_is_forgotten():
    cache = Cache(2)
    for key in "abc":
        cache.put(key, key)
    assert list(cache.values) == ["b", "c"]


def test_use_keeps_it():
    cache = Cache(2)
    cache.put("a", 1)
    cache.put("b", 2)
    cache.get("a")
    cache.put("c", 3)
    assert list(cache.values) == ["a", "c"]


def test_put_again():
    cache = Cache(2)
    cache.put("a", 1)
    cache.put("b", 2)
    cache.put("a", 3)
    assert cache.values == {"b": 2, "a": 3}
    assert list(cache.values) == ["b", "a"]
