import subprocess
import sys
import warnings
from importlib import import_module

import pytest

import attangent
from attangent import AttangentError
from attangent._core import deprecation as moved
from attangent._core.deprecation import moved_names, renamed_arguments


@renamed_arguments("0.2", told="progress")
def walk(steps, progress=None):
    return steps, progress


def test_an_old_argument_works_and_warns_at_the_line_of_the_caller():
    with pytest.warns(
        FutureWarning, match=r"walk\(told=\) is deprecated since attangent 0\.2.*use progress="
    ) as seen:
        assert walk(2, told=3) == (2, 3)
    assert seen[0].filename == __file__
    assert walk(2, progress=3) == (2, 3)


def test_both_names_at_once_are_refused():
    with pytest.raises(AttangentError, match="both told and progress"):
        walk(1, told=1, progress=2)


def test_a_moved_name_is_found_and_warned_of():
    look_up = moved_names("attangent.old", "0.2", {"sample_of": "attangent.data:sample"})
    with pytest.warns(FutureWarning, match=r"use attangent\.data\.sample"):
        assert look_up("sample_of")("weather").is_file()
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        look_up("nonsense")


TAUGHT = {
    "attangent.attention.fast": "HyperAttention fast_ntk_attention",
    "attangent.diffusion": "Adam Course Estimate ExactScore ForwardProcess GaussianMixture KernelScore "
    "NaturalInputs Rings SoftmaxScore draw_data error_terms hilbert_function label_loss mode_coverage "
    "noised_data relative_error sample sample_quality",
    "attangent.forecast.theory.ssm": "ResidualSSM",
    "attangent.compression.methods": "METHODS",
    "attangent.compression.session": "ChatSession",
    "attangent.stages.facts.language": "LanguageTraining train_on_facts",
    "attangent.stages.facts.typed_facts": "TypedFacts",
    "attangent.stages.theory.constructions": "bias_solution paper_solution signed_solution",
    "attangent.stages.theory.floor": "q_loss",
    "attangent.stages.theory.search": "minimise_q_loss",
    "attangent.stages.theory.training": "ConstantRate",
    "attangent.tuning.data.text": "read_task",
    "attangent.tuning.finetune": "Tuning finetune",
    "attangent.tuning.folders.tuned": "Estimate Prediction Tuned load_tuned",
    "attangent.tuning.methods": "Method",
    "attangent.tuning.methods.registry": "TECHNIQUES",
    "attangent.tuning.methods.settings": "Method",
    "attangent.tuning.methods.technique": "Technique WholeModel",
    "attangent.tuning.request": "Tuning",
    "attangent.tuning.training": "Training",
}
"""Names by old module, as README, docs and examples imported them."""
LEFT = {
    "forecast": "AttentionModel Autoformer DLinear Encoder Informer InvertedTransformer NLinear PatchTST "
    "RLinear Remedies ResidualSSM Training VanillaTransformer train_attention Dataset Forecaster "
    "LinearForecaster Persistence SeasonalNaive find_period from_frame load_csv errors_by_step",
    "icl": "Certificate Health InContextTransformer InitialisationWarning OneLayerAttention Training "
    "TransformerConfig TransformerTrainer",
    "kernels": "Guarantee concentration_bound prefix_guarantee require_unit_ball",
    "stages": "NoisySGD ReluAttention TwoStageData edit_spectrum q_loss_bounds train",
}
"""Public names that left a room for a paper."""


@pytest.mark.parametrize("module", TAUGHT)
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_what_docs_taught_can_be_imported(module):
    for name in TAUGHT[module].split():
        assert getattr(import_module(module), name) is not None


@pytest.mark.parametrize("room", LEFT)
def test_names_that_left_a_room_warn_with_their_new_place(room):
    for name in LEFT[room].split():
        with pytest.warns(
            FutureWarning, match=rf"attangent\.{room}\.{name} is deprecated.*use attangent\.pap"
        ):
            assert getattr(import_module(f"attangent.{room}"), name) is not None


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("attangent.compression.methods.base", "HeadwiseMethod"),
        ("attangent.kernels.modules", "Optimiser TangentModel departure"),
        ("attangent.stages", "measure_effect minus_loss search_spectrum"),
    ],
)
def test_names_that_were_removed_say_so(module, names):
    for name in names.split():
        with pytest.raises(AttributeError, match=f"{module}.{name} was removed"):
            getattr(import_module(module), name)


@pytest.mark.parametrize("name", ["KernelTuned", "plan_tuning"])
def test_planning_says_why_it_was_removed(name):
    with pytest.raises(AttributeError, match=f"attangent.{name} was removed .* five runs"):
        getattr(attangent, name)
    for module in moved.REMOVED:
        with pytest.raises(ModuleNotFoundError, match=f"attangent.{module} was removed"):
            import_module(f"attangent.{module}")


@pytest.mark.parametrize(("old", "new"), moved.MOVED.items())
def test_every_new_module_exists_and_no_old_one_does(old, new):
    import_module(f"attangent.{new}")
    spec = next(finder for finder in sys.meta_path if isinstance(finder, moved.MovedModules))
    assert spec.find_spec(f"attangent.{old}").loader.home == f"attangent.{new}"
    for finder in sys.meta_path:
        if not isinstance(finder, moved.MovedModules):
            parent = import_module(f"attangent.{old}".rpartition(".")[0])
            assert finder.find_spec(f"attangent.{old}", parent.__path__) is None


def test_an_old_module_warns_once_at_the_line_that_imports_it():
    code = (
        "import warnings\n"
        "with warnings.catch_warnings(record=True, action='always') as seen:\n"
        "    import attangent.stages.theory.floor as old\n"
        "    import attangent.stages.theory.floor\n"
        "from attangent.papers.p3_two_stage.theory import floor as new\n"
        "assert old.q_loss is new.q_loss\n"
        "assert [each.category for each in seen] == [FutureWarning] * 2, seen\n"  # the package and its module
        "assert all(each.filename == '<string>' for each in seen), seen\n"
        "assert 'use attangent.papers.p3_two_stage.theory.floor' in str(seen[1].message)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_old_package_is_an_attribute_too():
    with warnings.catch_warnings(action="ignore"):
        assert attangent.diffusion.ForwardProcess is not None


@pytest.mark.parametrize("name", ["attangent.nonsense", "attangent.stages.no", "attangent.diffusion.no"])
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_unknown_modules_stay_unknown(name):
    with pytest.raises(ModuleNotFoundError):
        import_module(name)
    assert moved.MovedModules().find_spec("json.nonsense") is None
