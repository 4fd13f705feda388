"""The models of a server: what a configuration changes, and what labels mean."""

import threading
from contextlib import ExitStack, closing

import pytest
from grpc import StatusCode

from tests.serving.server.models.test_versions import PATIENCE, StandIn, write
from tests.serving.server.test_fault_tolerance import until
from transbeam.configs.system.daemon_threads import run_in_background
from transbeam.serving.server.base.status import StatusError, invalid
from transbeam.serving.server.models import catalog as module
from transbeam.serving.server.models.catalog import Catalog, ModelSettings
from transbeam.serving.server.models.versions import Policy
from transbeam.serving.server.protocol.rest_paths import ModelTarget


class Loads:
    """Loads folders of models, and tells when it has."""

    def __init__(self):
        self.made = {}
        self.broken = {}
        self.tried = {}
        self.held = {}

    def __call__(self, name, folder):
        place = (name, int(folder.name))
        try:
            if held := self.held.get(place):
                self.expect(*place)
                held.wait(PATIENCE)
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
    with catalog.use(ModelTarget(name, version, label)) as (number, loaded):
        assert not loaded.closed.is_set()
        return number, loaded.folder.parent.name


def begin(catalog, wanted):
    """Looks once after the first models of a server."""
    with catalog.start_loading(wanted) as looks:
        for look in looks.values():
            look.result(PATIENCE)


def test_models_come_and_go(catalog, loads, settings):
    # tensorflow/serving: server_core_test.cc:115 ReloadConfigWaitsTillModelsAvailable
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
    with pytest.raises(StatusError, match=r"NOT_FOUND.*Latest\(a\)"):
        answering(catalog, "a")
    catalog.configure([])
    assert (catalog.names(), kept.closed.is_set()) == ([], True)


def test_a_model_moves(catalog, loads, settings):
    # tensorflow/serving: server_core_test.cc:189 ReloadConfigChangeModelBasePath
    catalog.configure([settings("a", 1)])
    old = loads.made["a", 1]
    catalog.configure([settings("a", 1, 2, folder="elsewhere")])
    assert answering(catalog, "a") == (2, "elsewhere")
    assert old.closed.is_set()


def test_a_policy_changes(catalog, settings):
    # tensorflow/serving: file_system_storage_path_source_test.cc:592 ChangeVersionPolic
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
    # tensorflow/serving: server_core_test.cc:414 DuplicateModelNameInConfig
    known = settings("a", 1)
    catalog.configure([known])
    catalog.configure([settings("a", labels={"stable": 1})])
    wanted = [ModelSettings(name, known.folder) for name in names]
    with pytest.raises(StatusError) as error:
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
    # tensorflow/serving: server_core_test.cc:718 ModelSpecMultipleVersionsAvailable
    policy = Policy(latest=None)
    catalog.configure([settings("a", 1, 2, policy=policy)])
    catalog.configure([settings("a", policy=policy, labels={"old": 1})])
    assert answering(catalog, "a", label="old") == (1, "a")
    with pytest.raises(
        StatusError, match="Unrecognized servable version label: new"
    ) as e:
        answering(catalog, "a", label="new")
    assert e.value.http == 400
    catalog.configure([settings("a", policy=policy, labels={"new": 2})])
    assert answering(catalog, "a", label="new") == (2, "a")
    with pytest.raises(StatusError, match="Unrecognized"):
        answering(catalog, "a", label="old")


REFUSED = (
    "Request to assign label to version {} of model {}, which is not currently "
    "available for inference"
)


@pytest.mark.parametrize(
    ("name", "number", "changes"),
    [
        ("a", 7, {}),
        # It is there and would be loaded, but does not answer yet.
        ("a", 1, {"policy": Policy(latest=None)}),
        ("a", 3, {}),
        ("b", 1, {}),
        ("new", 1, {}),
    ],
)
def test_a_label_for_a_version_that_does_not_answer_leaves_everything_as_it_was(
    catalog, loads, settings, name, number, changes
):
    # tensorflow/serving: server_core_test.cc:805 AssignLabelToUnavailableVersion
    loads.broken["a", 3] = invalid("damaged")
    catalog.configure([settings("a", 1, 2), settings("b", 4)])
    catalog.configure([settings("a", 3, labels={"stable": 2}), settings("b")])
    known = dict(loads.made)
    wanted = {n: settings(n) for n in ("a", "b")}
    wanted[name] = settings(name, 1, labels={"next": number}, **changes)
    with pytest.raises(StatusError) as error:
        catalog.configure(list(wanted.values()))
    assert error.value.code is StatusCode.FAILED_PRECONDITION
    assert error.value.message == REFUSED.format(number, name)
    assert (catalog.names(), loads.made) == (["a", "b"], known)
    assert catalog.labels("a") == {"stable": 2}
    assert answering(catalog, "a", label="stable") == (2, "a")
    assert answering(catalog, "b") == (4, "b")


def test_a_label_that_is_new_waits_for_its_version_if_it_may(loads, settings):
    # tensorflow/serving: server_core_test.cc:830 AssignLabelToUnavailableVersionAllowed
    with closing(Catalog(loads, early_labels=True)) as catalog:
        policy = Policy(latest=None)
        catalog.configure([settings("a", 1, policy=policy, labels={"next": 2})])
        with pytest.raises(StatusError, match=r"NOT_FOUND.*Specific\(a, 2\)"):
            answering(catalog, "a", label="next")
        # It may be said again; and one that waits may not be given another version.
        catalog.configure([settings("a", policy=policy, labels={"next": 2})])
        with pytest.raises(StatusError, match="label to version 3 of model a"):
            catalog.configure([settings("a", policy=policy, labels={"next": 3})])
        catalog.configure([settings("a", 2, policy=policy, labels={"next": 2})])
        assert answering(catalog, "a", label="next") == (2, "a")


def test_a_label_has_moved_when_its_old_version_is_let_go(
    catalog, settings, monkeypatch
):
    # tensorflow/serving: model_servers/server_core.cc:549 UpdateModelVersionLabelMap
    both, second = (Policy(specific=frozenset(of)) for of in ({1, 2}, {2}))
    catalog.configure([settings("a", 1, 2, policy=both)])
    catalog.configure([settings("a", policy=both, labels={"stable": 1})])
    model = catalog.model("a")
    unload, seen = model._unload, []

    def seeing(number):
        unload(number)
        seen.append((number, answering(catalog, "a", label="stable")))

    with monkeypatch.context() as patched:
        patched.setattr(model, "_unload", seeing)
        catalog.configure([settings("a", policy=second, labels={"stable": 2})])
    assert seen == [(1, (2, "a"))]


def test_ready_when_every_model_answers(catalog, loads, settings):
    assert not catalog.ready()
    loads.broken["b", 1] = invalid("damaged")
    wanted = [settings("a", 1), settings("b", 1)]
    begin(catalog, wanted)
    assert not catalog.ready()
    settings("b", 2)
    catalog.model("b").poll()
    assert not catalog.ready()  # labels are missing still
    catalog.configure(wanted)
    assert catalog.ready()


@pytest.mark.parametrize("versions", [(), (1,)])
def test_a_configuration_that_finds_nothing_changes_nothing(
    catalog, loads, settings, versions
):
    catalog.configure([settings("a", 1), settings("b", 1)])
    kept = catalog.model("a"), catalog.model("b")
    loads.broken["c", 1] = invalid("damaged")
    with pytest.raises(StatusError, match="c: nothing can be loaded from") as error:
        catalog.configure([settings("a"), settings("c", *versions)])
    assert error.value.code is StatusCode.FAILED_PRECONDITION
    said = "damaged" if versions else "there is no version folder"
    assert said in error.value.message
    assert (catalog.model("a"), catalog.model("b")) == kept
    assert catalog.model("c") is None
    assert catalog.ready()
    assert answering(catalog, "b") == (1, "b")


@pytest.mark.parametrize("error", [invalid("damaged"), RuntimeError("unexpected")])
def test_a_model_that_cannot_be_loaded_does_not_keep_others_out(
    catalog, loads, settings, error
):
    loads.broken["a", 1] = error
    begin(catalog, [settings("a", 1), settings("b", 1)])
    assert answering(catalog, "b") == (1, "b")
    assert not catalog.ready()


@pytest.fixture
def hanging(loads, monkeypatch):
    """Makes the storage of a version hang until it is let; others wait 0.1 s for it."""
    monkeypatch.setattr(module, "_TURN_SECONDS", 0.1)
    with ExitStack() as let:

        def hang(name, number):
            loads.held[name, number] = held = threading.Event()
            let.callback(held.set)
            return held

        yield hang


def test_the_first_models_answer_as_they_come(catalog, loads, settings, hanging):
    held = hanging("a", 1)
    wanted = [
        settings("a", 1, labels={"stable": 1}),
        settings("b", 1, labels={"stable": 1}),
    ]
    with catalog.start_loading(wanted) as looks:
        looks["b"].result(PATIENCE)
        assert answering(catalog, "b") == (1, "b")
        for target in (
            ModelTarget("a"),
            ModelTarget("a", 1),
            ModelTarget("b", label="stable"),
        ):
            with pytest.raises(StatusError) as error, catalog.use(target):
                pass
            assert error.value.code is StatusCode.UNAVAILABLE
        with pytest.raises(StatusError) as error, catalog.use(ModelTarget("c")):
            pass
        assert error.value.code is StatusCode.NOT_FOUND
        assert "1 of 2 models answer" in catalog.progress()
        assert catalog.progress().endswith("; not yet: a")
        held.set()
        looks["a"].result(PATIENCE)
    assert not catalog.ready()
    catalog.configure(wanted)
    assert answering(catalog, "a", label="stable") == (1, "a")
    assert catalog.ready()


def test_storage_that_hangs_holds_up_no_other_model(catalog, loads, settings, hanging):
    held = hanging("a", 2)
    catalog.configure([settings("a", 1), settings("b", 1)])
    catalog.start()
    settings("a", 2)
    until(lambda: catalog.model("a").is_polling() and ("a", 2) in loads.tried)
    settings("b", 2)
    until(lambda: answering(catalog, "b") == (2, "b"))
    assert answering(catalog, "a") == (1, "a")
    held.set()
    until(lambda: answering(catalog, "a") == (2, "a"))


def test_who_changes_models_does_not_wait_for_ever(
    catalog, settings, hanging, monkeypatch
):
    monkeypatch.setattr(module, "_CHANGE_SECONDS", 0.05)
    catalog.configure([settings("a", 1)])
    held = hanging("b", 1)
    both = [settings("a"), settings("b", 1)]
    first = run_in_background(lambda: catalog.configure(both), "a change")
    until(lambda: catalog.model("b") is not None)
    with pytest.raises(StatusError, match="being changed already") as error:
        catalog.configure([settings("a")])
    assert error.value.code is StatusCode.UNAVAILABLE
    held.set()
    first.result(PATIENCE)
    catalog.configure([settings("a")])
    assert catalog.names() == ["a"]


def test_what_comes_after_the_end_is_let_go(catalog, loads, settings, hanging):
    held = hanging("a", 1)
    with catalog.start_loading([settings("a", 1)]) as looks:
        until(lambda: ("a", 1) in loads.tried)
        catalog.close()
        held.set()
        looks["a"].result(PATIENCE)
    assert loads.made["a", 1].closed.is_set()
    assert catalog.model("a").available() == []


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
