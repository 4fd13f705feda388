"""The models of a server: what a configuration changes, and what labels mean."""

import logging
import threading

import pytest
from grpc import StatusCode

from serving.server.contract.paths import Target
from serving.server.failures import Failure, invalid
from serving.server.models.catalog import Catalog, ModelSettings
from serving.server.models.versions import Policy
from tests.serving.server.models.test_versions import PATIENCE, StandIn, write


class Loads:
    """Loads folders of models, and tells when it has."""

    def __init__(self):
        self.made = {}
        self.broken = {}
        self.tried = {}

    def __call__(self, name, folder):
        place = (name, int(folder.name))
        try:
            if error := self.broken.get(place):
                raise error
            self.made[place] = StandIn(folder)
            return self.made[place]
        finally:
            self.expect(*place).set()

    def expect(self, name, number):
        return self.tried.setdefault((name, number), threading.Event())


@pytest.fixture
def loads():
    return Loads()


@pytest.fixture
def catalog(loads):
    catalog = Catalog(loads, poll_seconds=0.01)
    yield catalog
    catalog.close()


@pytest.fixture
def settings(tmp_path):
    """Settings of a model with some versions."""

    def make(name, *numbers, folder=None, **changes):
        folder = tmp_path / (folder or name)
        folder.mkdir(exist_ok=True)
        write(folder, *numbers)
        return ModelSettings(name, folder, **changes)

    return make


def answering(catalog, name, version=None, label=None):
    """The version, and the folder it was loaded from."""
    with catalog.use(Target(name, version, label)) as (number, loaded):
        assert not loaded.closed.is_set()
        return number, loaded.folder.parent.name


def test_models_come_and_go(catalog, loads, settings):
    a, b, c = (settings(name, 1) for name in "abc")
    catalog.configure([a, b])
    assert catalog.names() == ["a", "b"]
    kept = loads.made["b", 1]
    catalog.configure([b, c])
    assert catalog.names() == ["b", "c"]
    assert loads.made["a", 1].closed.is_set()
    assert loads.made["b", 1] is kept
    assert not kept.closed.is_set()
    assert (answering(catalog, "b"), answering(catalog, "c")) == ((1, "b"), (1, "c"))
    assert catalog.model("a") is None
    with pytest.raises(Failure, match=r"NOT_FOUND.*Latest\(a\)"):
        answering(catalog, "a")
    catalog.configure([])
    assert (catalog.names(), kept.closed.is_set()) == ([], True)


def test_a_model_moves(catalog, loads, settings):
    catalog.configure([settings("a", 1)])
    old = loads.made["a", 1]
    catalog.configure([settings("a", 1, 2, folder="elsewhere")])
    assert answering(catalog, "a") == (2, "elsewhere")
    assert old.closed.is_set()


def test_a_policy_changes(catalog, settings):
    catalog.configure([settings("a", 1, 2)])
    model = catalog.model("a")
    catalog.configure([settings("a", policy=Policy(latest=None))])
    assert catalog.model("a") is model
    assert model.available() == [2, 1]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["../x"], "'../x' is not a name for a model"),
        ([""], "'' is not a name for a model"),
        (["a/b"], "'a/b' is not a name for a model"),
        ([".."], "is not a name"),
        ([".a"], "is not a name"),
        (["a\n"], "is not a name"),
        (["ä"], "is not a name"),
        (["new", "a:predict"], "is not a name"),
        (["new", "new"], "There are two models with the name 'new'"),
    ],
)
def test_bad_names_leave_everything_as_it_was(catalog, loads, settings, names, message):
    known = settings("a", 1, labels={"stable": 1})
    catalog.configure([known])
    wanted = [ModelSettings(name, known.folder) for name in names]
    with pytest.raises(Failure) as error:
        catalog.configure(wanted)
    assert error.value.code is StatusCode.INVALID_ARGUMENT
    assert message in error.value.message
    assert (catalog.names(), list(loads.made)) == (["a"], [("a", 1)])
    assert answering(catalog, "a", label="stable") == (1, "a")


@pytest.mark.parametrize("name", ["a", "7", "A.b-c_d", "half_plus_two"])
def test_good_names(catalog, settings, name):
    catalog.configure([settings(name, 1)])
    assert answering(catalog, name) == (1, name)


def test_labels(catalog, settings):
    policy = Policy(latest=None)
    catalog.configure([settings("a", 1, 2, policy=policy, labels={"old": 1})])
    assert answering(catalog, "a", label="old") == (1, "a")
    with pytest.raises(Failure, match="Unrecognized servable version label: new") as e:
        answering(catalog, "a", label="new")
    assert e.value.http == 400
    catalog.configure([settings("a", policy=policy, labels={"new": 2})])
    assert answering(catalog, "a", label="new") == (2, "a")
    with pytest.raises(Failure, match="Unrecognized"):
        answering(catalog, "a", label="old")


def test_a_label_for_a_version_that_does_not_answer_is_warned_of(
    catalog, settings, caplog
):
    with caplog.at_level(logging.WARNING):
        catalog.configure([settings("a", 1, labels={"next": 2})])
    assert "the label 'next' is for version 2, which does not answer" in caplog.text
    with pytest.raises(Failure, match=r"Specific\(a, 2\)"):
        answering(catalog, "a", label="next")


def test_ready_when_every_model_answers(catalog, loads, settings):
    assert not catalog.ready()
    loads.broken["b", 1] = invalid("damaged")
    catalog.configure([settings("a", 1), settings("b", 1)])
    assert not catalog.ready()
    catalog.configure([settings("a"), settings("b", 2)])
    assert catalog.ready()


@pytest.mark.parametrize("error", [invalid("damaged"), RuntimeError("unexpected")])
def test_a_model_that_cannot_be_loaded_does_not_keep_others_out(
    catalog, loads, settings, error
):
    loads.broken["a", 1] = error
    catalog.configure([settings("a", 1), settings("b", 1)])
    assert answering(catalog, "b") == (1, "b")
    assert not catalog.ready()


def test_a_new_version_is_found(catalog, loads, settings):
    catalog.configure([settings("a", 1)])
    old = loads.made["a", 1]
    catalog.start()
    settings("a", 2)
    # The old one goes when the new one answers.
    assert old.closed.wait(PATIENCE)
    assert answering(catalog, "a") == (2, "a")


def test_looking_goes_on_after_an_unexpected_error(catalog, loads, settings):
    catalog.configure([settings("a", 1), settings("b", 1)])
    before = [loads.made[name, 1] for name in "ab"]
    loads.broken["a", 2] = RuntimeError("unexpected")
    catalog.start()
    settings("a", 2)
    assert loads.expect("a", 2).wait(PATIENCE)
    assert answering(catalog, "a") == (1, "a")
    settings("b", 2)
    assert before[1].closed.wait(PATIENCE)
    settings("a", 3)
    assert before[0].closed.wait(PATIENCE)
    assert (answering(catalog, "a"), answering(catalog, "b")) == ((3, "a"), (2, "b"))


def test_closing_lets_all_go(loads, settings):
    catalog = Catalog(loads)
    catalog.configure([settings("a", 1), settings("b", 1)])
    catalog.start()
    catalog.close()
    assert all(made.closed.is_set() for made in loads.made.values())
    assert not catalog.ready()
