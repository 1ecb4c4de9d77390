/* nano_rl.cpp - a small GPT defined and trained in a plain C++ loop on the tensors of grpo.h.
 *
 * It adds two digits: after "7+5=" it should write "12".  First it sees a few hundred worked sums
 * (cross-entropy), until it is right about half of the time.  Then it only hears whether its own
 * answers are right: it samples groups of answers, computes their advantages, and calls the GRPO
 * loss directly on logits, targets and advantages.
 *
 *   c++ -std=c++17 nano_rl.cpp $(pkg-config --cflags --libs grpo) -o nano_rl
 *   ./nano_rl [supervised steps] [GRPO steps]
 */
#include <grpo.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <stdexcept>
#include <vector>

namespace {

constexpr int kVocab = 12, kPlus = 10, kEquals = 11; /* tokens 0 to 9 are the digits */
constexpr int kPrompt = 4, kAnswer = 2, kLength = kPrompt + kAnswer;
constexpr int kWidth = 64, kHeads = 4, kLayers = 2;

/* ---- the library behind values and exceptions -------------------------------------------- */

grpo_context *context = nullptr;

void check(grpo_status status) {
  if (status != GRPO_OK) throw std::runtime_error(grpo_message(context));
}

struct Free {
  void operator()(grpo_context *c) const { grpo_context_free(c); }
  void operator()(grpo_tensor *t) const { grpo_tensor_free(t); }
  void operator()(grpo_adamw *a) const { grpo_adamw_free(a); }
};
using Tensor = std::unique_ptr<grpo_tensor, Free>;

std::vector<grpo_tensor *> parameters; /* owned by the model */

Tensor parameter(std::vector<int32_t> shape, double deviation, float fill = 0) {
  static uint64_t seed = 0;
  grpo_tensor *t = nullptr;
  check(grpo_tensor_randn(context, static_cast<int32_t>(shape.size()), shape.data(), deviation,
                          ++seed, 1, &t));
  float *data = nullptr;
  size_t n = 0;
  check(grpo_tensor_data(t, &data, &n));
  if (fill != 0) std::fill(data, data + n, fill);
  parameters.push_back(t);
  return Tensor(t);
}

Tensor unary(const char *operation, const Tensor &a) {
  grpo_tensor *in[] = {a.get()}, *out = nullptr;
  check(grpo_tensor_apply(context, operation, 1, in, 0, nullptr, &out));
  return Tensor(out);
}
Tensor operator+(const Tensor &a, const Tensor &b) {
  grpo_tensor *in[] = {a.get(), b.get()}, *out = nullptr;
  check(grpo_tensor_apply(context, "add", 2, in, 0, nullptr, &out));
  return Tensor(out);
}
/* Looks up the rows `ids` of a table, and adds those of a table of positions if it is given. */
Tensor rows_of(const Tensor &table, const std::vector<int32_t> &ids,
               const Tensor &positions = nullptr, const std::vector<int32_t> &at = {}) {
  grpo_tensor *out = nullptr;
  check(
      grpo_tensor_embedding(table.get(), ids.data(), ids.size(), positions.get(), at.data(), &out));
  return Tensor(out);
}

/* ---- the model ------------------------------------------------------------------------------ */

struct Linear {
  Tensor w, b;
  Linear(int in, int out)
      : w(parameter({out, in}, 1 / std::sqrt(static_cast<double>(in)))), b(parameter({out}, 0)) {}
  Tensor operator()(const Tensor &x) const {
    grpo_tensor *out = nullptr;
    check(grpo_tensor_linear(x.get(), w.get(), b.get(), &out));
    return Tensor(out);
  }
};

struct LayerNorm {
  Tensor w = parameter({kWidth}, 0, 1), b = parameter({kWidth}, 0);
  Tensor operator()(const Tensor &x) const {
    grpo_tensor *out = nullptr;
    check(grpo_tensor_layernorm(x.get(), w.get(), b.get(), 1e-5, &out));
    return Tensor(out);
  }
};

struct Block {
  LayerNorm norm1, norm2;
  Linear q{kWidth, kWidth}, k{kWidth, kWidth}, v{kWidth, kWidth}, o{kWidth, kWidth};
  Linear up{kWidth, 4 * kWidth}, down{4 * kWidth, kWidth};

  Tensor operator()(const Tensor &x, const std::vector<int32_t> &lengths) const {
    const Tensor h = norm1(x), hq = q(h), hk = k(h), hv = v(h);
    grpo_tensor *mixed = nullptr;
    check(grpo_tensor_attention(hq.get(), hk.get(), hv.get(), kHeads, kHeads, lengths.data(),
                                lengths.size(), &mixed));
    const Tensor y = x + o(Tensor(mixed));
    return y + down(unary("gelu", up(norm2(y))));
  }
};

struct Gpt {
  Tensor tokens = parameter({kVocab, kWidth}, 0.1), places = parameter({kLength, kWidth}, 0.1);
  std::vector<Block> blocks = std::vector<Block>(kLayers);
  LayerNorm norm;
  Linear head{kWidth, kVocab};

  /* `ids` are sequences of `length` tokens.  Logits [sequences * wanted, kVocab] after the last
   * `wanted` tokens of each. */
  Tensor logits(const std::vector<int32_t> &ids, int length, int wanted) const {
    const int sequences = static_cast<int>(ids.size()) / length;
    std::vector<int32_t> at, last;
    for (int i = 0; i < sequences; i++)
      for (int t = 0; t < length; t++) {
        at.push_back(t);
        if (t >= length - wanted) last.push_back(i * length + t);
      }
    Tensor x = rows_of(tokens, ids, places, at);
    const std::vector<int32_t> lengths(static_cast<size_t>(sequences), length);
    for (const Block &block : blocks) x = block(x, lengths);
    return head(norm(rows_of(x, last)));
  }
};

/* ---- sums ------------------------------------------------------------------------------------ */

std::mt19937 random_bits(1);

std::vector<int32_t> prompt_of(int sum) { return {sum / 10, kPlus, sum % 10, kEquals}; }
std::vector<int32_t> answer_of(int sum) {
  const int total = sum / 10 + sum % 10;
  return {total / 10, total % 10};
}
int draw_sum() { return static_cast<int>(random_bits() % 100); }

void append(std::vector<int32_t> &to, const std::vector<int32_t> &more) {
  to.insert(to.end(), more.begin(), more.end());
}

/* Samples a token from softmax(z / temperature); at temperature 0 it takes the most probable. */
int draw_token(const float *z, double temperature) {
  if (temperature == 0) return static_cast<int>(std::max_element(z, z + kVocab) - z);
  const float most = *std::max_element(z, z + kVocab);
  double p[kVocab], sum = 0;
  for (int i = 0; i < kVocab; i++) sum += p[i] = std::exp((z[i] - most) / temperature);
  double left = sum * (static_cast<double>(random_bits()) / 4294967296.0);
  for (int i = 0; i < kVocab; i++)
    if ((left -= p[i]) < 0) return i;
  return kVocab - 1;
}

/* Samples an answer to each sum, token by token; returns whole sequences [sums, kLength]. */
std::vector<int32_t> write_answers(const Gpt &model, const std::vector<int> &sums,
                                   double temperature) {
  check(grpo_set_recording(context, 0));
  std::vector<int32_t> ids;
  for (int sum : sums) append(ids, prompt_of(sum));
  for (int length = kPrompt; length < kLength; length++) {
    const Tensor logits = model.logits(ids, length, 1);
    float *z = nullptr;
    check(grpo_tensor_data(logits.get(), &z, nullptr));
    std::vector<int32_t> longer;
    for (size_t i = 0; i < sums.size(); i++) {
      const auto from = ids.begin() + static_cast<std::ptrdiff_t>(i) * length;
      longer.insert(longer.end(), from, from + length);
      longer.push_back(draw_token(z + i * kVocab, temperature));
    }
    ids = longer;
  }
  check(grpo_set_recording(context, 1));
  return ids;
}

bool is_right(const std::vector<int32_t> &ids, size_t i, int sum) {
  const auto from = ids.begin() + static_cast<std::ptrdiff_t>(i) * kLength + kPrompt;
  return std::equal(from, from + kAnswer, answer_of(sum).begin());
}

double accuracy(const Gpt &model) {
  std::vector<int> all;
  for (int sum = 0; sum < 100; sum++) all.push_back(sum);
  const std::vector<int32_t> ids = write_answers(model, all, 0);
  int right = 0;
  for (size_t i = 0; i < all.size(); i++) right += is_right(ids, i, all[i]);
  return right / 100.0;
}

/* ---- training -------------------------------------------------------------------------------- */

/* The targets: the answers' tokens of sequences [n, kLength]. */
std::vector<int32_t> targets_of(const std::vector<int32_t> &ids) {
  std::vector<int32_t> targets;
  for (size_t i = 0; i < ids.size(); i += kLength)
    targets.insert(targets.end(), ids.begin() + static_cast<std::ptrdiff_t>(i) + kPrompt,
                   ids.begin() + static_cast<std::ptrdiff_t>(i) + kLength);
  return targets;
}

/* The inputs: the sequences without their last token. */
std::vector<int32_t> inputs_of(const std::vector<int32_t> &ids) {
  std::vector<int32_t> inputs;
  for (size_t i = 0; i < ids.size(); i++)
    if (i % kLength != kLength - 1) inputs.push_back(ids[i]);
  return inputs;
}

void descend(grpo_tensor *loss_to_free, grpo_adamw *optimizer, double lr) {
  const Tensor loss(loss_to_free);
  check(grpo_tensor_backward(loss.get()));
  check(grpo_adamw_step(optimizer, lr, 1.0, nullptr));
}

void supervised_step(const Gpt &model, grpo_adamw *optimizer) {
  std::vector<int32_t> ids;
  for (int i = 0; i < 32; i++) {
    const int sum = draw_sum();
    append(ids, prompt_of(sum));
    append(ids, answer_of(sum));
  }
  const Tensor logits = model.logits(inputs_of(ids), kLength - 1, kAnswer);
  grpo_tensor *loss = nullptr;
  check(grpo_tensor_cross_entropy(logits.get(), targets_of(ids).data(), 0, &loss));
  descend(loss, optimizer, 2e-3);
}

/* Returns the mean reward. */
double grpo_step(const Gpt &model, grpo_adamw *optimizer) {
  constexpr int kPrompts = 16, kGroup = 8, kAll = kPrompts * kGroup;
  std::vector<int> sums;
  for (int p = 0; p < kPrompts; p++) sums.insert(sums.end(), kGroup, draw_sum());
  const std::vector<int32_t> ids = write_answers(model, sums, 1.0);

  std::vector<double> rewards, advantages(kAll);
  for (size_t i = 0; i < sums.size(); i++) rewards.push_back(is_right(ids, i, sums[i]));
  grpo_advantage_options a;
  check(grpo_advantage_options_init(&a, sizeof a));
  a.group = kGroup;
  check(grpo_advantages(context, &a, kAll, rewards.data(), nullptr, advantages.data()));

  std::vector<float> of_token; /* every token has its answer's */
  for (double x : advantages) of_token.insert(of_token.end(), kAnswer, static_cast<float>(x));
  const Tensor logits = model.logits(inputs_of(ids), kLength - 1, kAnswer);
  const std::vector<int32_t> targets = targets_of(ids);
  grpo_loss_batch batch;
  check(grpo_loss_batch_init(&batch, sizeof batch));
  batch.count = targets.size();
  batch.advantage = of_token.data();
  grpo_tensor *loss = nullptr;
  /* Without options the loss is "grpo"; with one sequence it is the mean over all tokens. */
  check(grpo_tensor_policy_loss(logits.get(), targets.data(), nullptr, &batch, 1.0, &loss));
  descend(loss, optimizer, 5e-4);

  double mean = 0;
  for (double r : rewards) mean += r / kAll;
  return mean;
}

void run(int supervised_steps, int grpo_steps) {
  parameters.clear();
  const Gpt model;
  grpo_adamw *a = nullptr;
  check(grpo_adamw_new(context, parameters.size(), parameters.data(), nullptr, &a));
  const std::unique_ptr<grpo_adamw, Free> optimizer(a);
  std::printf("before: %3.0f %% of the 100 sums\n", 100 * accuracy(model));
  int step = 0;
  while (step < supervised_steps && (step % 10 || accuracy(model) < 0.5)) {
    supervised_step(model, optimizer.get());
    step++;
  }
  std::printf("after %d supervised steps: %3.0f %%\n", step, 100 * accuracy(model));
  for (step = 1; step <= grpo_steps; step++) {
    const double reward = grpo_step(model, optimizer.get());
    if (step % 50 == 0) std::printf("GRPO step %3d: reward %.3f\n", step, reward);
  }
  std::printf("after GRPO: %3.0f %%\n", 100 * accuracy(model));
}

} // namespace

int main(int argc, char **argv) try {
  grpo_context_options o;
  check(grpo_context_options_init(&o, sizeof o));
  o.threads = 1; /* work this small is no faster on more */
  check(grpo_context_new(&o, &context));
  const std::unique_ptr<grpo_context, Free> owner(context);
  run(argc > 1 ? std::atoi(argv[1]) : 1000, argc > 2 ? std::atoi(argv[2]) : 300);
  return 0;
} catch (const std::exception &e) {
  std::fprintf(stderr, "nano_rl: %s\n", e.what());
  return 1;
}
