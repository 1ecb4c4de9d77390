/* train.c in C++: handles as unique_ptr, failures as exceptions, the reward a lambda.
 *   c++ -std=c++17 train_cpp.cpp $(pkg-config --cflags --libs grpo) -o train_cpp && ./train_cpp [steps] */
#include <grpo.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string_view>
#include <vector>

template <auto free_handle> struct Free {
  template <class T> void operator()(T *handle) const { free_handle(handle); }
};
using Context = std::unique_ptr<grpo_context, Free<grpo_context_free>>;
using Tokenizer = std::unique_ptr<grpo_tokenizer, Free<grpo_tokenizer_free>>;
using Model = std::unique_ptr<grpo_model, Free<grpo_model_free>>;
using Trainer = std::unique_ptr<grpo_trainer, Free<grpo_trainer_free>>;

static void check(const Context &c, grpo_status s) {
  if (s != GRPO_OK) throw std::runtime_error(grpo_message(c.get()));
}
/* Returns what a call writes to its last parameter. */
template <class Owner, class F, class... Args>
static Owner make(const Context &c, F f, Args... args) {
  typename Owner::pointer handle = nullptr;
  check(c, f(args..., &handle));
  return Owner(handle);
}

static void train(int steps) {
  static constexpr std::string_view letters = "abcdefgh";
  const Context c = make<Context>(nullptr, grpo_context_new, nullptr);
  const Tokenizer tokenizer =
      make<Tokenizer>(c, grpo_tokenizer_chars, c.get(), letters.data(), letters.size());
  const char *config = R"({"model_type": "llama", "hidden_size": 32, "intermediate_size": 64,
    "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 32,
    "initializer_range": 0.1})";
  const Model model = make<Model>(c, grpo_model_new, c.get(), config, tokenizer.get(), nullptr);
  grpo_trainer_options o;
  grpo_sampling sampling;
  grpo_update_options update;
  check(c, grpo_trainer_options_init(&o, sizeof o)); /* 8 prompts, 8 completions of each */
  check(c, grpo_sampling_init(&sampling, sizeof sampling));
  check(c, grpo_update_options_init(&update, sizeof update));
  o.max_prompt_tokens = 1, o.max_new_tokens = 8;
  update.lr = 1e-2;
  const Trainer trainer =
      make<Trainer>(c, grpo_trainer_new, model.get(), nullptr, tokenizer.get(), &o);

  std::vector<int32_t> ids(letters.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::vector<grpo_prompt> prompts;
  for (uint32_t i = 0; i < ids.size(); i++) prompts.push_back({&ids[i], 1, i, 0});
  const grpo_reward_fn repeats = [](void *, const grpo_sample *s, double *reward) -> grpo_status {
    *reward = 0;
    for (char ch : std::string_view(s->text, s->text_length))
      *reward += (ch == letters[static_cast<size_t>(s->prompt)]) / 8.0;
    return GRPO_OK;
  };
  for (int step = 0; step < steps; step++) {
    std::vector<double> rewards(64);
    sampling.step = static_cast<uint32_t>(step);
    check(c, grpo_trainer_rollout(trainer.get(), prompts.data(), prompts.size(), &sampling));
    check(c, grpo_trainer_score(trainer.get(), repeats, nullptr));
    check(c, grpo_trainer_rewards(trainer.get(), rewards.data(), rewards.size()));
    check(c, grpo_trainer_advantages(trainer.get(), nullptr, nullptr, 0));
    check(c, grpo_trainer_update(trainer.get(), &update, nullptr));
    const double mean = std::accumulate(rewards.begin(), rewards.end(), 0.0) / 64;
    if (step % 10 == 9) std::printf("step %3d: reward %.3f\n", step + 1, mean);
  }
}

int main(int argc, char **argv) try {
  train(argc > 1 ? std::atoi(argv[1]) : 60);
} catch (const std::exception &e) {
  std::fprintf(stderr, "train_cpp: %s\n", e.what());
  return 1;
}
