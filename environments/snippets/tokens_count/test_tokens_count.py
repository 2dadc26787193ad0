from tokens_count import Bucket, wait


def test_take():
    bucket = Bucket()
    assert bucket.take(0) is True
    assert bucket.tokens == 4


def test_take_all():
    assert Bucket(3).take(0, 3) is True


def test_too_many():
    bucket = Bucket(3)
    assert bucket.take(0, 4) is False
    assert bucket.tokens == 3


def test_refill():
    bucket = Bucket(5, per_second=2)
    bucket.take(0, 5)
    bucket.refill(2)
    assert bucket.tokens == 4


def test_never_more_than_the_size():
    bucket = Bucket(5)
    bucket.take(0, 1)
    bucket.refill(60)
    assert bucket.tokens == 5


def test_time_counts_once():
    bucket = Bucket(5)
    bucket.take(0, 5)
    bucket.refill(2)
    bucket.refill(3)
    assert bucket.tokens == 3


def test_wait():
    bucket = Bucket(4, per_second=2)
    bucket.take(0, 4)
    assert wait(bucket, 3) == 1.5


def test_no_wait():
    assert wait(Bucket(4), 2) == 0
