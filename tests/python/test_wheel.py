"""The package of the wheel, as it is installed: tools/check-wheel runs this."""
import copy
import ctypes
import inspect
import os
import signal
import tempfile
import threading
import time
import unittest

os.chdir(tempfile.mkdtemp())  # before grpo is found, so that it is the installed one

import grpo
from grpo import _abi
from grpo._library import lib

CONFIG = {"model_type": "llama", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1,
          "num_attention_heads": 2, "max_position_embeddings": 256, "initializer_range": 0.1}
LETTERS = [{"prompt": letter, "wanted": {"letter": letter}} for letter in "abcd"]


def small(**settings):
    given = {"output_dir": "runs", "max_steps": 2, "num_generations": 4, "per_device_train_batch_size": 8,
             "max_prompt_length": 1, "max_completion_length": 6, "learning_rate": 1e-2, "logging_strategy": "no"}
    return grpo.Config(**{**given, **settings})


def repeats(prompts, completions, wanted, **kwargs):
    return [text.count(w["letter"]) / 6 for text, w in zip(completions, wanted)]


def trainer(reward=repeats, args=None, rows=LETTERS, **others):
    return grpo.Trainer("tiny", reward, args or small(), rows, **others)


class Declarations(unittest.TestCase):
    """That sizes and offsets are those of grpo.h is checked where the declarations are written."""

    def test_every_function_of_the_library_is_declared(self):
        self.assertGreater(len(_abi.FUNCTIONS), 100)
        for name, (result, arguments) in _abi.FUNCTIONS.items():
            self.assertEqual(getattr(lib, name).argtypes, arguments)

    def test_the_library_knows_the_structs_by_their_sizes(self):
        self.assertEqual(lib.grpo_abi_version(), 1)
        for name in _abi.FUNCTIONS:
            if name.endswith("_init"):
                kind = getattr(_abi, name[:-5])
                o = kind()
                self.assertEqual(getattr(lib, name)(ctypes.byref(o), ctypes.sizeof(o)), _abi.GRPO_OK, name)
                self.assertEqual(o.size, ctypes.sizeof(kind), name)

    def test_the_package_is_the_installed_one(self):
        self.assertIn("site-packages", grpo.__file__)


class Training(unittest.TestCase):
    def test_columns_reach_the_reward_and_the_model_learns(self):
        t = trainer(args=small(max_steps=40))
        end = t.train()
        log = t.state.log_history
        self.assertEqual(end.global_step, 40)
        self.assertGreater(log[-1]["reward"], log[0]["reward"] + 0.3)
        self.assertEqual(t.generate("b", max_new_tokens=3, temperature=0)[0].text, "bbb")

    def test_a_reward_gets_lists_of_one_length(self):
        seen = []

        def reward(prompts, completions, completion_ids, wanted, **kwargs):
            seen.append((len(prompts), len(completions), len(completion_ids), len(wanted), set(prompts)))
            return [None] + [1.0] * (len(prompts) - 1)

        trainer(reward).train()
        self.assertEqual({s[:4] for s in seen}, {(4, 4, 4, 4)})
        self.assertTrue(all(len(s[4]) == 1 for s in seen))

    def test_several_rewards_have_weights_and_metrics_of_their_own(self):
        def longest(completions, **kwargs):
            return [len(c) for c in completions]

        t = trainer([repeats, longest], small(reward_weights=[1.0, 0.5]))
        t.train()
        log = t.state.log_history[0]
        self.assertAlmostEqual(log["reward"], log["rewards/repeats/mean"] + 0.5 * log["rewards/longest/mean"], places=5)

    def test_an_exception_of_a_reward_is_raised(self):
        def broken(**kwargs):
            raise KeyError("mine")

        with self.assertRaisesRegex(KeyError, "mine"):
            trainer(broken).train()
        t = trainer(broken, small(options={"reward.on_error": "zero"}))
        self.assertEqual(t.train().global_step, 2)

    def test_too_few_rewards_are_refused(self):
        with self.assertRaisesRegex(ValueError, "returned 1 numbers for 4 completions"):
            trainer(lambda **kwargs: [1.0]).train()

    def test_a_run_is_continued_with_the_same_bits(self):
        whole, part = trainer(args=small(max_steps=4, save_steps=2)), trainer(args=small(max_steps=4, save_steps=2))
        whole.train()
        calls = []

        def stops(**columns):
            calls.append(1)
            if len(calls) > 2 * 2:  # two prompts a step
                raise InterruptedError
            return repeats(**columns)

        stops.__name__ = "repeats"
        broken = trainer(stops, small(max_steps=4, save_steps=2))
        with self.assertRaises(InterruptedError):
            broken.train()
        part.train(resume_from_checkpoint=broken.state.directory)
        self.assertEqual(part.score(["a"], ["abcd"]), whole.score(["a"], ["abcd"]))

    def test_an_adapter_is_trained_and_saved(self):
        t = trainer(peft_config=grpo.LoraConfig(r=2, lora_alpha=4, target_modules=["q_proj", "v_proj"]))
        t.train()
        t.save_model("adapter")
        self.assertIn("adapter_model.safetensors", os.listdir("adapter"))
        t.save_model("merged", merge=True)
        self.assertEqual(grpo.Model("adapter").generate("a", temperature=0, max_new_tokens=4)[0].ids,
                         grpo.Model("merged").generate("a", temperature=0, max_new_tokens=4)[0].ids)

    def test_a_conversation_and_an_evaluation(self):
        rows, seen = [{"prompt": [{"role": "user", "content": "a"}], "n": 1}], []

        def reward(prompts, completions, n, **kwargs):
            seen.append((prompts[0], completions[0][0]["role"], n[0]))
            return [len(c[0]["content"]) for c in completions]

        args = small(max_prompt_length=64, options={"model.chat_template": "chatml"})
        grpo.Trainer("bytes", reward, args, rows, eval_dataset=rows).train()
        self.assertEqual(seen[0], (rows[0]["prompt"], "assistant", 1))

    def test_ctrl_c_ends_the_run_with_a_checkpoint(self):
        t = trainer(args=small(max_steps=100000))
        timer = threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT))
        timer.start()
        with self.assertRaises(KeyboardInterrupt), self.assertLogs("grpo", "WARNING"):
            t.train()
        done = len(t.state.log_history)
        self.assertEqual(len(t.generate("a", max_new_tokens=1)), 1)
        t.args.max_steps = done + 1
        self.assertEqual(t.train(resume_from_checkpoint=True).global_step, done + 1)
        self.assertEqual([log["step"] for log in t.state.log_history], list(range(1, done + 2)))

    def test_a_second_ctrl_c_ends_a_reward(self):
        def waits(completions, **kwargs):
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(60)

        with self.assertRaises(KeyboardInterrupt), self.assertLogs("grpo", "WARNING"):
            trainer(waits).train()

    def test_the_state_tells_of_steps_and_evaluations(self):
        t = trainer(args=small(eval_strategy="steps", eval_steps=1), eval_dataset=LETTERS)
        end = t.train()
        self.assertTrue(os.path.exists(os.path.join(t.state.directory, "run.json")))
        self.assertEqual((t.state.global_step, end.metrics["step"]), (2, 2))
        self.assertEqual([log["step"] for log in t.state.log_history if "eval_reward" in log], [0, 1, 2])
        with self.assertLogs("grpo", "WARNING") as log:
            again = trainer().train(resume_from_checkpoint=t.state.directory)
        self.assertIn("finished already", log.output[0])
        self.assertEqual(again.global_step, 2)

    def test_a_template_of_the_options_is_that_of_the_trained_model(self):
        rows = [{"prompt": [{"role": "user", "content": "a"}]}]
        t = grpo.Trainer("bytes", lambda completions, **kwargs: [0.0] * len(completions),
                         small(max_prompt_length=64, options={"model.chat_template": "chatml"}), rows)
        t.train()
        self.assertEqual(len(t.generate([rows[0]["prompt"]], max_new_tokens=1)), 1)

    def test_a_data_frame_gives_its_rows(self):
        class Frame:  # what pandas has of this
            iloc = None

            def to_dict(self, kind):
                return LETTERS if kind == "records" else None

        self.assertEqual(trainer(rows=Frame(), eval_dataset=Frame()).train().global_step, 2)

    def test_two_lambdas_are_two_rewards(self):
        t = trainer([lambda completions, **k: [1.0] * len(completions), lambda completions, **k: [2.0] * len(completions)])
        self.assertEqual(t.train().metrics["reward"], 3)

    def test_a_slow_reward_is_waited_for(self):
        def slow(completions, **kwargs):
            time.sleep(5.5)
            return [0.0] * len(completions)

        trainer(slow, small(max_steps=1), LETTERS[:1]).train()


class Refusals(unittest.TestCase):
    def test_settings_without_an_equivalent_are_refused_by_name(self):
        with self.assertRaises(grpo.Error) as caught:
            trainer(args=small(fp16=True, use_vllm=True, num_generation=3)).train()
        for name in ("fp16: no equivalent", "use_vllm: no equivalent", "num_generation: "):
            self.assertIn(name, str(caught.exception))

    def test_switches_that_are_off_are_not(self):
        trainer(args=small(use_vllm=False, push_to_hub=False, report_to="none", bf16=False)).train()

    def test_settings_that_ask_for_what_is_so_anyway_are_not(self):
        lora = grpo.LoraConfig(r=2, target_modules=["q_proj"], task_type="CAUSAL_LM", bias="none", inference_mode=False)
        trainer(args=small(use_cpu=True, report_to=[], num_train_epochs=1.0), peft_config=lora).train()
        with self.assertRaisesRegex(grpo.Error, "refused: bias: .*; task_type: "):
            trainer(peft_config=grpo.LoraConfig(task_type="SEQ_CLS", bias="all")).train()

    def test_a_setting_may_be_changed_or_come_with_others(self):
        args = small(generation_kwargs={"top_k": 2, "stop_strings": "d"})
        args.max_steps = 1
        self.assertEqual(trainer(args=args).train().global_step, 1)
        self.assertEqual((args.top_k, args.options["sampling.stop"]), (2, ["d"]))
        self.assertIn("max_steps=1", repr(args))
        with self.assertRaisesRegex(ValueError, "learning_rate is nan"):
            small(learning_rate=float("nan"))

    def test_what_a_reward_returns(self):
        async def later(**kwargs):
            return [1.0]

        for wrong, message in ((None, "returned a NoneType"), (1.0, "returned a float"), ("abcd", "returned a str"),
                               (["good"] * 4, "returned 'good' for completion 0"), ([10**400] * 4, "for completion 0")):
            with self.assertRaisesRegex(TypeError, message):
                trainer(lambda **kwargs: wrong).train()
        with self.assertRaisesRegex(TypeError, "the reward later .*async"):
            trainer(later).train()
        trainer(lambda completions, **kwargs: (len(c) for c in completions)).train()
        with self.assertRaisesRegex(TypeError, "a reward weight is 'a'"):
            trainer(args=small(reward_weights=["a"])).train()

    def test_arguments(self):
        with self.assertRaises(ValueError) as caught:
            trainer(callbacks=[1], compute=1, optimizers=None)
        self.assertRegex(str(caught.exception), "refused: callbacks: .*; compute: grpo has no such argument")
        self.assertNotIn("optimizers", str(caught.exception))
        with self.assertRaisesRegex(ValueError, "12 completions of a step are not whole groups"):
            trainer(args=small(per_device_train_batch_size=6, gradient_accumulation_steps=2, num_generations=8))
        with self.assertRaisesRegex(TypeError, "the path of its directory"):
            grpo.Trainer(object(), repeats, small(), LETTERS)
        for others, line in (({"args": object()}, "from grpo import GRPOConfig"),
                             ({"peft_config": object()}, "from grpo import LoraConfig")):
            with self.assertRaisesRegex(TypeError, line):
                trainer(**others)
        with self.assertRaisesRegex(ValueError, "row 0 of train_dataset"):
            trainer(rows=[{"question": "a"}])
        with self.assertRaisesRegex(ValueError, "the row: columns question, answer"):
            trainer(rows=[{"question": "a", "answer": "b"}])
        with self.assertRaisesRegex(ValueError, "the parts 'train', 'test'"):
            trainer(rows={"train": LETTERS, "test": LETTERS})
        with self.assertRaisesRegex(ValueError, "nothing was loaded"):
            trainer(rows="rows.jsonl")
        for rewards in ("org/reward-model", ["org/reward-model"]):
            with self.assertRaisesRegex(TypeError, "'org/reward-model' is no function, because reward models"):
                trainer(rewards)

    def test_a_model_that_is_not_there(self):
        with self.assertRaises(grpo.Error) as caught:
            grpo.Model("no/such/model")
        self.assertEqual(caught.exception.status, "ENOENT")


class Models(unittest.TestCase):
    def test_scores_are_what_was_sampled_with(self):
        m, compared = grpo.Model("tiny"), 0
        for c in m.generate(["a", "b"], max_new_tokens=5, num_return_sequences=8, seed=3):
            if len(c.text) == len(c.ids):  # without special tokens, which the text leaves out
                again = m.score(["ab"[c.prompt]], [c.text])[0]
                for x, y in zip(again, c.logprobs):
                    self.assertAlmostEqual(x, y, places=4)
                compared += len(again)
        self.assertGreater(compared, 10)

    def test_text_and_ids(self):
        m = grpo.Model("bytes")
        self.assertEqual(m.encode("aé"), list("aé".encode()))
        self.assertEqual(m.decode(m.encode("a\0é")), "a\0é")
        self.assertIn("hi", m.chat([{"role": "user", "content": "hi"}], chat_template="chatml"))

    def test_a_conversation_with_one_prompt_is_in_a_list(self):
        m = grpo.Model("bytes")
        with self.assertRaisesRegex(grpo.Error, "chat template"):
            m.generate([[{"role": "user", "content": "hi"}]])

    def test_a_model_is_not_copied(self):
        m = grpo.Model("tiny")
        for make in (copy.copy, copy.deepcopy):
            with self.assertRaisesRegex(TypeError, "Model: it cannot be copied"):
                make(m)
        self.assertEqual(repr(m), "Model('tiny')")

    def test_one_text_stands_for_a_list_with_it(self):
        m = grpo.Model("tiny")
        self.assertEqual(m.score("ab", "cd"), m.score(["ab"], ["cd"]))
        self.assertEqual(m.generate("a", stop="xyz"), m.generate("a", stop=["xyz"]))

    def test_arguments_that_no_model_takes(self):
        m = grpo.Model("tiny")
        for wrong in ([None], [b"a"], [{"role": "user", "content": "a"}]):
            with self.assertRaisesRegex(TypeError, "a prompt is a "):
                m.generate(wrong)
        for name in ("max_new_tokens", "num_return_sequences"):
            for value in (0, -1, 2**40):
                with self.assertRaisesRegex(ValueError, name):
                    m.generate("a", **{name: value})
        for path in ("", None, 3):
            with self.assertRaisesRegex(TypeError, "no path was given"):
                grpo.Model(path)
        with self.assertRaisesRegex(ValueError, "NUL"):
            grpo.Model("tiny\0x")

    def test_settings_are_typed(self):
        self.assertTrue(os.path.exists(os.path.join(os.path.dirname(grpo.__file__), "py.typed")))
        self.assertIn("num_generations", inspect.signature(grpo.Config).parameters)


grpo.Model.from_config(CONFIG, characters="abcd").save_pretrained("tiny")
grpo.Model.from_config(CONFIG).save_pretrained("bytes")
unittest.main()
