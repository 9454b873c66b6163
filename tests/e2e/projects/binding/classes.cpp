// Classes and enums as a binding can have them: compiled by the rules, and by torch's own cpp_extension with pybind11, the
// module behaves the same.
#include <torch/extension.h>

#include <pybind11/operators.h>
#include <pybind11/stl.h>

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace shapes {

// Counts its objects, for tests of how long they live.
struct Counted {
  static inline int alive = 0;
  Counted() {
    ++alive;
  }
  Counted(const Counted&) {
    ++alive;
  }
  Counted& operator=(const Counted&) = default;
  ~Counted() {
    --alive;
  }
};

enum class Kind : uint8_t { Round = 0, Square = 1, Other = 200 };
enum Level { Low = -1, High = 3 };
enum Flags : unsigned { Read = 1, Write = 2 };
enum class Order { First, Second };
enum class Wide : uint64_t { Small = 1, Huge = 0xffffffffffffffffull };

struct Params {
  enum class Mode { Fast, Exact };

  float alpha = 0.25f;
  int count = 3;
  bool flag = false;
  std::string name = "params";
  std::array<float, 3> poly{{1.f, 2.f, 4.f}};
  std::vector<int> sizes{1, 2};
  std::optional<double> limit;
  Mode mode = Mode::Exact;
  at::Tensor weight;
  static inline int version = 7;
};

struct Point : Counted {
  double x;
  double y;
  explicit Point(double a = 0, double b = 0) : x(a), y(b) {}
  double norm2() const {
    return x * x + y * y;
  }
  Point& scale(double factor) {
    x *= factor;
    y *= factor;
    return *this;
  }
  double get_x() const noexcept {
    return x;
  }
  void set_x(double value) {
    x = value;
  }
  Point operator+(const Point& other) const {
    return Point(x + other.x, y + other.y);
  }
  Point operator*(double factor) const {
    return Point(x * factor, y * factor);
  }
  friend Point operator*(double factor, const Point& point) {
    return point * factor;
  }
  Point operator-() const {
    return Point(-x, -y);
  }
  Point& operator+=(const Point& other) {
    x += other.x;
    y += other.y;
    return *this;
  }
  bool operator==(const Point& other) const {
    return x == other.x && y == other.y;
  }
  bool operator<(const Point& other) const {
    return norm2() < other.norm2();
  }
};

struct Line {
  Point from;
  Point to{1, 1};
  std::shared_ptr<Point> middle;
  Point* far = nullptr;
  std::vector<Point> points;
};

// Shared between Python and C++.
struct Node : Counted {
  explicit Node(std::string text) : label(std::move(text)) {}
  std::string label;
  std::shared_ptr<Node> next;
};
std::shared_ptr<Node> kept;

// Derived classes, with and without virtual functions.
struct Animal : Counted {
  virtual ~Animal() = default;
  virtual std::string sound() const = 0;
  int legs = 4;
};
struct Dog : Animal {
  std::string sound() const override {
    return "wuff";
  }
  int tricks = 1;
};
struct Named {
  std::string name = "nobody";
};
struct Bird : Named, Animal {
  std::string sound() const override {
    return "tweet";
  }
};

struct Only {
  Only(const Only&) = delete;
  int value = 9;
  static Only& instance() {
    static Only* only = new Only;
    return *only;
  }

 private:
  Only() = default;
  ~Only() = default;
};

struct Bag {
  std::vector<int> items;
  int at(int i) const {
    if (i < 0 || i >= static_cast<int>(items.size())) {
      throw py::index_error("no such item");
    }
    return items[i];
  }
};

struct Failing {
  explicit Failing(int how) {
    if (how == 1) {
      throw std::invalid_argument("a bad argument");
    }
    TORCH_CHECK(how != 2, "a check");
  }
};

struct Aggregate {
  int a;
  float b;
};

struct Empty {};
struct Final {};

struct Problem : std::runtime_error {
  using std::runtime_error::runtime_error;
};
struct Worse : Problem {
  using Problem::Problem;
};

struct Inner {
  struct Deep {};
  int value = 1;
};

at::Tensor apply(const at::Tensor& x, const Params& params, std::optional<Params> other) {
  return x * params.alpha + (other ? other->count : params.count);
}

void init_later(py::module_& m) {
  py::class_<Aggregate>(m, "Aggregate")
      .def(py::init<int, float>(), py::arg("a"), py::arg("b") = 0.5f)
      .def_readonly("a", &Aggregate::a)
      .def_readonly("b", &Aggregate::b);
}

}  // namespace shapes

using namespace shapes;

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  py::enum_<Kind>(m, "Kind", "The kind").value("Round", Kind::Round).value("Square", Kind::Square, "four sides").value("Other", Kind::Other);
  py::enum_<Level>(m, "Level").value("Low", Low).value("High", High).export_values();
  py::enum_<Flags>(m, "Flags", py::arithmetic(), py::module_local()).value("Read", Read).value("Write", Write).export_values();
  py::enum_<Order>(m, "Order", py::arithmetic(), "An order")
      .value("First", Order::First)
      .value("Second", Order::Second)
      .def("next", [](Order order) { return order == Order::First ? Order::Second : Order::First; })
      .def_property_readonly("is_first", [](Order order) { return order == Order::First; })
      .def_static("last", []() { return Order::Second; });
  py::enum_<Wide>(m, "Wide").value("Small", Wide::Small).value("Huge", Wide::Huge);
  m.def("kind_of", [](Kind kind) { return static_cast<int>(kind); }, py::arg("kind") = Kind::Square);
  m.def("kind_at", [](int number) { return static_cast<Kind>(number); });
  m.def("level_of", [](Level level) { return static_cast<int>(level); });
  m.def("level_at", [](int number) { return static_cast<Level>(number); });
  m.def("wide_of", [](Wide wide) { return wide; });
  m.def("kinds", [](const std::vector<Kind>& kinds) { return kinds; });
  m.def("flags_or_text", [](Flags flags) { return static_cast<int>(flags); });
  m.def("flags_or_text", [](const std::string& text) { return text; });

  py::class_<Params> params(m, "Params", "Parameters of a shape");
  py::enum_<Params::Mode>(params, "Mode").value("Fast", Params::Mode::Fast).value("Exact", Params::Mode::Exact).export_values();
  params.def(py::init<>())
      .def_readwrite("alpha", &Params::alpha, "The factor")
      .def_readwrite("count", &Params::count)
      .def_readwrite("flag", &Params::flag)
      .def_readwrite("name", &Params::name)
      .def_readwrite("poly", &Params::poly)
      .def_readwrite("sizes", &Params::sizes)
      .def_readwrite("limit", &Params::limit)
      .def_readwrite("mode", &Params::mode)
      .def_readwrite("weight", &Params::weight)
      .def_readwrite_static("version", &Params::version)
      .def_readonly_static("fixed", &Params::version)
      .def_property_readonly_static("doubled", [](py::object) { return 2 * Params::version; });
  params.attr("CONSTANT") = 5;
  m.attr("AlsoParams") = params;
  m.attr("default_params") = Params();

  m.def("apply", &shapes::apply, "Applies", py::arg("x"), py::arg("params"), py::arg("other") = py::none());
  m.def("twice", [](Params params) {
    params.count *= 2;
    return params;
  });
  m.def("change", [](Params& params) { params.count = 99; });
  m.def("pointer", [](Params* params) { return params == nullptr ? -1 : params->count; });
  m.def("const_pointer", [](const Params* params) { return params == nullptr ? -1 : params->count; }, py::arg("params") = nullptr);
  m.def("not_none", [](Params* params) { return params->count; }, py::arg("params").none(false));
  m.def("many", [](const std::vector<Params>& many) { return many.size(); });
  m.def("table", [](const std::map<std::string, Params>& table) { return table.size(); });
  m.def("either", [](std::optional<Params> params) { return params; });
  m.def("both", [](const Params& params, int n) { return std::make_tuple(params, n); });
  m.def("nested", [](std::tuple<int, Params> item) { return std::vector<std::tuple<int, Params>>{item}; });
  m.def("overloaded", [](const Params& params) { return std::string("params"); });
  m.def("overloaded", [](const at::Tensor& x) { return std::string("tensor"); }, "Of a tensor");
  m.def("overloaded", [](int n) { return std::string("int"); });

  py::class_<Point>(m, "Point")
      .def(py::init<>())
      .def(py::init<double, double>(), "A point", py::arg("x"), py::arg("y") = 1.5)
      .def(py::init([](const std::string& text) { return Point(static_cast<double>(text.size()), 0); }))
      .def(py::init([](std::tuple<double, double> both) { return std::make_unique<Point>(std::get<0>(both), std::get<1>(both)); }))
      .def(py::init([](int64_t a, const std::string&) { return a < 0 ? nullptr : new Point(static_cast<double>(a), 0); }))
      .def("norm2", &Point::norm2, "The square of the norm")
      .def("scale", &Point::scale, py::arg("factor") = 2.0)
      .def("scale_copy", &Point::scale, py::return_value_policy::copy, py::arg("factor"))
      .def("distance", [](const Point& self, const Point& other) { return std::abs(self.x - other.x) + std::abs(self.y - other.y); }, py::arg("other"))
      .def("only_keyword", [](Point& self, int a, int b) { return a + 2 * b; }, py::arg("a"), py::kw_only(), py::arg("b") = 4)
      .def("mixed", [](Point& self, int a) { return a; })
      .def("mixed", [](Point& self, const std::string& text) { return text; }, py::arg("text"))
      .def_static("unit", []() { return Point(1, 0); }, "The unit")
      .def_static("of", [](double x) { return Point(x, x); }, py::arg("x"))
      .def_readwrite("y", &Point::y)
      .def_property("x", &Point::get_x, &Point::set_x, "The first coordinate")
      .def_property_readonly("both", [](const Point& self) { return std::make_pair(self.x, self.y); })
      .def_property("sum", [](const Point& self) { return self.x + self.y; }, [](Point& self, double sum) { self.y = sum - self.x; })
      .def("__repr__", [](const Point& self) { return "Point(" + std::to_string(self.x) + ", " + std::to_string(self.y) + ")"; })
      .def("__len__", [](const Point&) { return 2; })
      .def("__call__", [](const Point& self, double factor) { return self.x * factor; }, py::arg("factor"))
      .def("__getitem__", [](const Point& self, int i) {
        if (i < 0 || i > 1) {
          throw py::index_error("a point has two");
        }
        return i == 0 ? self.x : self.y;
      })
      .def("__setitem__", [](Point& self, int i, double value) { (i == 0 ? self.x : self.y) = value; })
      .def("__contains__", [](const Point& self, double value) { return value == self.x || value == self.y; })
      .def("__bool__", [](const Point& self) { return self.x != 0 || self.y != 0; })
      .def("__float__", [](const Point& self) { return self.x; })
      .def("__enter__", [](Point& self) -> Point& { return self; })
      .def("__sub__", [](const Point& a, const Point& b) { return Point(a.x - b.x, a.y - b.y); }, py::is_operator())
      .def(py::self + py::self)
      .def(py::self * double())
      .def(double() * py::self)
      .def(-py::self)
      .def(py::self += py::self)
      .def(py::self == py::self)
      .def(py::self < py::self)
      .def(py::pickle(
          [](const Point& self) { return std::make_tuple(self.x, self.y); },
          [](std::tuple<double, double> state) { return Point(std::get<0>(state), std::get<1>(state)); }));

  py::class_<Line>(m, "Line", py::dynamic_attr())
      .def(py::init<>())
      .def(py::init([](const Point& from) {
             Line line;
             line.from = from;
             return line;
           }), py::arg("from_"))
      .def_readwrite("start", &Line::from)
      .def_readonly("end", &Line::to)
      .def_readwrite("points", &Line::points)
      .def_readwrite("far", &Line::far)
      .def("set_far", [](Line& self, Point* point) { self.far = point; }, py::keep_alive<1, 2>())
      .def("get_far", [](Line& self) { return self.far; }, py::return_value_policy::reference)
      .def("start_ref", [](Line& self) -> Point& { return self.from; }, py::return_value_policy::reference_internal)
      .def("start_copy", [](Line& self) -> const Point& { return self.from; })
      .def("start_pointer", [](Line& self) { return &self.from; }, py::return_value_policy::reference_internal)
      .def("all", [](Line& self) { return std::vector<Point*>{&self.from, &self.to}; }, py::return_value_policy::reference_internal)
      .def("copies", [](Line& self) { return std::vector<Point>{self.from, self.to}; }, py::return_value_policy::reference);
  m.def("new_point", []() { return new Point(5, 6); });
  m.def("unique_point", []() { return std::make_unique<Point>(7, 8); });
  m.def("no_point", []() -> Point* { return nullptr; });
  m.def("points", [](int n) { return std::vector<Point>(n, Point(1, 2)); });
  m.def("same_point", [](Point& point) -> Point& { return point; });
  m.def("same_pointer", [](Point* point) { return point; }, py::return_value_policy::reference);

  py::class_<Node, std::shared_ptr<Node>>(m, "Node")
      .def(py::init<std::string>(), py::arg("label") = "leaf")
      .def(py::init([](int n) { return std::make_shared<Node>("number " + std::to_string(n)); }))
      .def_readonly("label", &Node::label)
      .def_readwrite("next", &Node::next);
  m.def("keep", [](std::shared_ptr<Node> node) { kept = std::move(node); }, py::arg("node"));
  m.def("get_kept", []() { return kept; });
  m.def("new_node", []() { return std::make_shared<Node>("new"); });
  m.def("uses", [](const std::shared_ptr<Node>& node) { return node ? node.use_count() > 1 : false; });
  m.def("nodes", [](const std::vector<std::shared_ptr<Node>>& nodes) { return nodes; });
  m.def("maybe_node", [](std::optional<std::shared_ptr<Node>> node) { return node.has_value(); });
  m.def("alive", []() { return Counted::alive; });

  py::class_<Animal>(m, "Animal").def("sound", &Animal::sound).def_readwrite("legs", &Animal::legs);
  py::class_<Dog, Animal>(m, "Dog").def(py::init<>()).def_readwrite("tricks", &Dog::tricks).def("legs_of", [](const Animal& self) { return self.legs; });
  py::class_<Named>(m, "Named").def(py::init<>()).def_readwrite("name", &Named::name);
  py::class_<Bird, Named, Animal>(m, "Bird", py::multiple_inheritance()).def(py::init<>());
  m.def("sound_of", [](const Animal& animal) { return animal.sound(); });
  m.def("legs_of", [](Animal* animal) { return animal->legs; });
  m.def("name_of", [](const Named& named) { return named.name; });
  m.def("new_animal", [](bool dog) -> Animal* { return dog ? static_cast<Animal*>(new Dog) : new Bird; });

  py::class_<Only, std::unique_ptr<Only, py::nodelete>>(m, "Only")
      .def_static("instance", &Only::instance, py::return_value_policy::reference)
      .def_readwrite("value", &Only::value);
  m.def("copy_only", []() -> Only& { return Only::instance(); });

  py::class_<Bag>(m, "Bag")
      .def(py::init<>())
      .def(py::init([](std::vector<int> items) { return Bag{std::move(items)}; }))
      .def("__len__", [](const Bag& self) { return self.items.size(); })
      .def("__getitem__", &Bag::at)
      .def("__hash__", [](const Bag& self) { return self.items.size(); })
      .def("__eq__", [](const Bag& self, const Bag& other) { return self.items == other.items; })
      .def("add", [](Bag& self, int item) -> Bag& {
        self.items.push_back(item);
        return self;
      })
      .def("without_lock", [](Bag& self) { return self.items.size(); }, py::call_guard<py::gil_scoped_release>());

  py::class_<Failing>(m, "Failing").def(py::init<int>());
  py::class_<Empty>(m, "Empty", py::module_local());
  py::class_<Final>(m, "Final", py::is_final()).def(py::init<>());
  shapes::init_later(m);

  py::register_exception<Problem>(m, "Problem");
  py::register_exception<Worse>(m, "Worse", PyExc_ValueError);
  m.def("fails", [](int how) {
    if (how == 1) {
      throw Problem("a problem");
    }
    if (how == 2) {
      throw Worse("something worse");
    }
    throw std::runtime_error("another");
  });

  auto sub = m.def_submodule("sub", "Below");
  py::class_<Inner> inner(sub, "Inner");
  inner.def(py::init<>()).def_readwrite("value", &Inner::value);
  py::class_<Inner::Deep>(inner, "Deep").def(py::init<>()).def("__str__", [](const Inner::Deep&) { return "deep"; });
  sub.def("inner", []() { return Inner{4}; });
}
