from torch import nn

from attangent._core.modules import eval_mode


def test_every_module_gets_its_mode_back():
    model = nn.Sequential(nn.Dropout(), nn.Dropout())
    model[1].eval()
    try:
        with eval_mode(model):
            assert not any(module.training for module in model.modules())
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        pass
    assert [module.training for module in model.modules()] == [True, True, False]
